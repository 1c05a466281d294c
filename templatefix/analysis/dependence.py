"""What of a Go template depends on messages that come later, found by reading its tree."""

from __future__ import annotations

from dataclasses import dataclass

from templatefix.analysis.gotree_flow import Flow, Item, Record, Suspect
from templatefix.analysis.gotree_values import Assumptions
from templatefix.gotemplate.deep import run_deep
from templatefix.gotemplate.parser import Tree


@dataclass(frozen=True)
class TreeReading:
    """A tree read on abstract conversations, with tools."""

    tree: Tree
    record: Record
    printed: tuple[tuple[Item, ...], ...]  # by the runs with and without a system message

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """Places that can render differently when messages are added, in the order of the source."""
        return tuple(sorted(self.record.suspects.values(), key=lambda suspect: suspect.node.span))


def read(tree: Tree, think: bool = False, thoughts: bool = False) -> TreeReading:
    """Read a tree; `think` as the server would set it, `thoughts` if earlier turns may hold thinking."""
    record = Record()
    printed = []
    for system in (True, False):
        flow = Flow(tree, Assumptions(True, system, think, thoughts), record)
        printed.append(run_deep(tree.depth, flow.run))
    return TreeReading(tree, record, tuple(printed))
