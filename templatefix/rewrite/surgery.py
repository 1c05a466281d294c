"""Cuts and insertions in a template's text that mind trim markers.

`{{-` and `-}}` eat the white space beside them. A cut that brings new neighbours together must neither let white space
reappear that was eaten nor let a marker eat white space that was printed. All offsets are bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.nodes import (
    ActionNode,
    BlockNode,
    BranchNode,
    BreakNode,
    CommentNode,
    ContinueNode,
    DefineNode,
    ListNode,
    Node,
    TemplateNode,
    TextNode,
)
from templatefix.gotemplate.parser import Tree
from templatefix.gotemplate.source import Span
from templatefix.gotemplate.visitor import walk

_SPACE = b" \t\r\n"


def without_left_marker(text: str) -> str:
    """Template text whose first action does not trim what stands in front of it."""
    if not text.startswith("{{-") or not text[3:4].isspace():
        return text
    return "{{" + text[4:] if text.startswith("/*", 4) else "{{" + text[3:]  # a comment stands right at its delimiter


def without_right_marker(text: str) -> str:
    """Template text whose last action does not trim what stands behind it."""
    if not text.endswith("-}}") or not text[-4:-3].isspace():
        return text
    return text[:-4] + "}}" if text.endswith("*/", 0, -4) else text[:-3] + "}}"


class Surgeon:
    """Makes the edits for one template."""

    def __init__(self, tree: Tree) -> None:
        self.source = tree.source
        self.data = tree.source.data
        self._starts: dict[int, Span] = {}  # actions by where they start
        self._ends: dict[int, Span] = {}
        self._texts: list[Span] = []  # what is printed
        for node in walk(tree.root):
            if isinstance(node, TextNode):
                self._texts.append(node.span)
            else:
                for span in _delimiters(node):
                    self._starts[span.start] = span
                    self._ends[span.end] = span
        self._texts.sort()

    # What stands at a place

    def _printed(self, offset: int) -> bool:
        """Whether the byte at an offset is printed text."""
        index = bisect_right(self._texts, Span(offset, len(self.data) + 1)) - 1
        return index >= 0 and self._texts[index].start <= offset < self._texts[index].end

    def trims_left(self, span: Span) -> bool:
        """Whether an action trims what stands before it."""
        return self.data[span.start : span.start + 3] == b"{{-" and self.data[span.start + 3 : span.start + 4].isspace()

    def trims_right(self, span: Span) -> bool:
        """Whether an action trims what stands behind it."""
        return self.data[span.end - 3 : span.end] == b"-}}" and self.data[span.end - 4 : span.end - 3].isspace()

    def _leftwards(self, offset: int) -> int:
        """Back over white space that is not printed."""
        while offset > 0 and self.data[offset - 1] in _SPACE and not self._printed(offset - 1):
            if offset in self._ends:
                break
            offset -= 1
        return offset

    def _rightwards(self, offset: int) -> int:
        """On over white space that is not printed."""
        while offset < len(self.data) and self.data[offset] in _SPACE and not self._printed(offset):
            if offset in self._starts:
                break
            offset += 1
        return offset

    def _insertion(self, offset: int) -> int:
        """Where to insert so that white space eaten by a neighbour's marker stays beside that marker."""
        if offset in self._starts and self.trims_left(self._starts[offset]):
            return self._leftwards(offset)
        if offset in self._ends and self.trims_right(self._ends[offset]):
            return self._rightwards(offset)
        return offset

    # Edits

    def cut(self, start: int, end: int) -> list[Edit]:
        """Take out a range that starts and ends at actions or within printed text."""
        return self.replace(start, end, "")

    def insert(self, offset: int, text: str) -> list[Edit]:
        """Put template text in; a line of its own where it starts a new one."""
        if offset == 0 and text.startswith("\n{{- ") and 0 in self._starts and self.trims_left(self._starts[0]):
            return [Edit(Span(0, 0), f"{text[1:]}\n")]
        return self.replace(offset, offset, text)

    def replace(self, start: int, end: int, text: str) -> list[Edit]:
        """Put template text in the place of a range.

        White space that the range's own outer markers ate goes with them; a marker of a neighbour that would eat
        printed white space is taken off.
        """
        if start == end:
            start = end = self._insertion(start)
        else:
            if start in self._starts and self.trims_left(self._starts[start]):
                start = self._leftwards(start)
            if end in self._ends and self.trims_right(self._ends[end]):
                end = self._rightwards(end)
        edits: list[Edit] = []
        left = self._ends.get(self._leftwards(start))
        right = self._starts.get(self._rightwards(end))
        printed_before = start > 0 and self._printed(start - 1) and self.data[start - 1] in _SPACE
        printed_after = end < len(self.data) and self._printed(end) and self.data[end] in _SPACE
        if text:
            head_space = text[0].isspace() and not text.lstrip().startswith("{{- ")
            tail_space = text[-1].isspace()
            if printed_before:
                text = without_left_marker(text)
            if printed_after:
                text = without_right_marker(text)
        else:
            head_space, tail_space = printed_after, printed_before
        if left is not None and head_space and self.trims_right(left):
            edits.append(self._without_marker(left, without_right_marker))
            start = min(start, left.end) if start > left.end else start
        if right is not None and tail_space and self.trims_left(right):
            edits.append(self._without_marker(right, without_left_marker))
            end = max(end, right.start) if end < right.start else end
        edits.append(Edit(Span(start, end), text))
        return edits

    def _without_marker(self, action: Span, change: Callable[[str], str]) -> Edit:
        """Take the marker off one end of an action."""
        text = self.source.slice(action)
        bare = change(text)
        cut = len(text) - len(bare)
        if text[:3] == "{{-" and bare[:3] != "{{-":
            return Edit(Span(action.start + 2, action.start + 2 + cut), "")
        return Edit(Span(action.end - 2 - cut, action.end - 2), "")

    def keep_arm(self, branch: BranchNode, kept: ListNode | None) -> list[Edit]:
        """Take a branch away but for one of its arms (None: for all of it); the rest of an `else if` chain stays."""
        chain = branch.else_list.nodes[0] if branch.else_list is not None and branch.else_list.nodes else None
        if kept is branch.else_list and isinstance(chain, BranchNode) and chain.chained:
            return self._drop_first_arm(branch, chain)
        if branch.chained:
            return self._drop_chained(branch, kept)
        if kept is None or not kept.nodes:
            return self.cut(branch.span.start, branch.span.end)
        first, last = kept.nodes[0], kept.nodes[-1]
        return self.cut(branch.span.start, first.span.start) + self.cut(last.span.end, branch.span.end)

    def _drop_first_arm(self, branch: BranchNode, chain: BranchNode) -> list[Edit]:
        """`{{ if a }} … {{ else if b }}` becomes `{{ if b }}` (within a chain, `{{ else if b }}`)."""
        if branch.chained:
            return [Edit(Span(branch.open.start, chain.open.start), "")]
        opening = self.source.slice(chain.open)
        word = "else if" if "else if" in opening else "else with"
        lead = opening.split(word)[0]
        text = ("{{- " if self.trims_left(branch.open) else "{{ ") + opening[len(lead) + len("else ") :]
        return [Edit(Span(branch.open.start, chain.open.end), text)]

    def _drop_chained(self, branch: BranchNode, kept: ListNode | None) -> list[Edit]:
        """`{{ else if a }} … {{ else }} …` becomes `{{ else }} …`; without an else arm it goes."""
        if kept is branch.else_list and branch.else_node is not None:
            return [Edit(Span(branch.open.start, branch.else_node.span.start), "")]
        end = branch.list.nodes[-1].span.end if branch.list.nodes else branch.open.end
        return [Edit(Span(branch.open.start, end), "")]

    def text_of(self, start: int, end: int) -> str:
        """Source text to be put elsewhere: as written, the outer trim markers taken off."""
        text = self.source.slice(Span(start, end))
        if start in self._starts:
            text = without_left_marker(text)
        if end in self._ends:
            text = without_right_marker(text)
        return text


def _delimiters(node: Node) -> list[Span]:
    if isinstance(node, BranchNode):
        spans = [node.open]
        if node.else_node is not None:
            spans.append(node.else_node.span)
        return [*spans, node.end.span]
    if isinstance(node, (DefineNode, BlockNode)):
        return [node.open, node.end.span]
    if isinstance(node, (ActionNode, TemplateNode, CommentNode, BreakNode, ContinueNode)):
        return [node.span]
    return []
