"""Changes to a Jinja template that may make its prompts grow only: each a few edits on spans, each to be tried."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from templatefix.analysis.stability import LoopRun
from templatefix.chat.rendering import Piece
from templatefix.gotemplate.edits import Edit
from templatefix.gotemplate.source import Span
from templatefix.rewrite.candidates import Placement
from templatefix.rewrite.decisions import Decision
from templatefix.rewrite.jinja_said import JinjaSaid
from templatefix.rewrite.jinja_tags import Arm, Branch, ForLoop, JinjaTags, Tag

_SHOWN: Final = 12  # pieces behind the first difference that are looked at
_LATER: Final = re.compile(r"last|\[\s*-|\|\s*length|next|revindex|future")  # asks for what comes later
_THOUGHT: Final = re.compile(r"think|reason", re.IGNORECASE)


@dataclass(frozen=True)
class JinjaCandidate:
    """Edits with what they do."""

    what: str
    edits: tuple[Edit, ...]
    placement: Placement | None = None
    adds: bool = False  # whether marks of the template stand at more places than before


class JinjaCandidates:
    """Proposes changes for one template, from what its loops lost."""

    def __init__(
        self, tags: JinjaTags, runs: Sequence[LoopRun], placement: Placement, *, keeps: bool, tools: bool
    ) -> None:
        self.tags = tags
        self.runs = runs
        self.placement = placement
        self.keeps = keeps
        self.tools = tools  # whether the template knows tools
        self.source = tags.source

    def propose(self, likely: bool) -> Iterator[JinjaCandidate]:
        """Changes to conditions that look as if they asked for what comes later, or to all others."""
        for branch, arm in self._gates():
            for operand in sorted(self.tags.operands(arm.tag), key=len):
                loop = self._loop(branch)
                if loop is not None and self._asks_later(operand) is likely:
                    yield from self._changes(branch, arm, operand, loop)

    def _changes(self, branch: Branch, arm: Arm, operand: Span, loop: ForLoop) -> Iterator[JinjaCandidate]:
        if self._prints("tool", branch):
            yield from self._tools(branch, arm.tag, operand, loop)
        if self._prints("system", branch):
            yield from self._system(arm.tag, operand, loop)
        if self.tools:
            yield from self._closed(arm, operand, loop)
        if self.keeps:
            yield from self._keep(arm, operand, loop)

    def _asks_later(self, operand: Span) -> bool:
        """Whether a part of a condition looks as if it asked for what comes later in the conversation."""
        text = self.source.slice(operand)
        return _LATER.search(text) is not None or any(name in self._later for name in re.findall(r"\w+", text))

    @cached_property
    def _later(self) -> frozenset[str]:
        """The variables that are set to what comes later."""
        sets = [tag for tag in self.tags.tags if tag.name == "set" and len(tag.tokens) > 2]
        return frozenset(
            [
                tag.tokens[0].text
                for tag in sets
                if tag.tokens[1].text == "=" and _LATER.search(self.tags.text(tag.tokens))
            ]
        )

    # -- where

    @cached_property
    def _moved(self) -> list[Span]:
        """The places of what the loops lost and of what came instead."""
        places: dict[Span, None] = {}
        for run in self.runs:
            for index in run.lost:
                before = run.steps[index - 1] if index else run.steps[0]
                for piece in _parted(before.rendering.pieces, run.steps[index].rendering.pieces):
                    places.setdefault(piece.span)
        return list(places)

    def _gates(self) -> Iterator[tuple[Branch, Arm]]:
        """The branches that decide about what moved, innermost first, with the arms whose conditions count."""
        seen: set[Span] = set()
        for place in self._moved:
            for branch in self.tags.around(place.start):
                for arm in branch.arms:
                    if arm.tag.span not in seen and arm.tag.tokens:
                        seen.add(arm.tag.span)
                        yield branch, arm

    @cached_property
    def _printed(self) -> dict[str, set[Span]]:
        found: dict[str, set[Span]] = {"tool": set(), "system": set()}
        for run in self.runs:
            for step in islice(run.steps, 3):
                for piece in step.rendering.pieces:
                    if piece.origin is not None and piece.origin.kind != "message":
                        found["system" if piece.origin.kind == "system" else "tool"].add(piece.span)
        return found

    def _prints(self, kind: str, branch: Branch) -> bool:
        return any(branch.span.contains(span) for span in self._printed[kind])

    def _loop(self, branch: Branch) -> ForLoop | None:
        """The outermost loop around a branch."""
        loops = self.tags.loops_around(branch.span.start)
        return loops[-1] if loops else None

    # -- what

    def _tools(self, branch: Branch, tag: Tag, operand: Span, loop: ForLoop) -> Iterator[JinjaCandidate]:
        line = self.source.position(tag.span.start).line
        if self.placement == "system" and len(branch.arms) == 1:
            freed = self._edited(branch.span, self._dropped(tag, [operand, *self._texts(tag, operand)]))
            yield JinjaCandidate(
                f"the tools of line {line} in front of the first turn",
                (*self._cut(branch.span), self._before(loop, freed)),
                "system",
            )
        prelude, first = self._first_user(loop)
        yield JinjaCandidate(
            f"the tools of line {line} at the first user turn",
            (*prelude, Edit(operand, first), *self._dropped(tag, self._texts(tag, operand))),
            "first-user",
        )

    def _system(self, tag: Tag, operand: Span, loop: ForLoop) -> Iterator[JinjaCandidate]:
        prelude, first = self._first_user(loop)
        asked = self.source.slice(operand)
        either = f"((tools and {first}) or (not tools and {asked}))" if self.tools else first
        line = self.source.position(tag.span.start).line
        yield JinjaCandidate(
            f"the system text of line {line} at the first user turn", (*prelude, Edit(operand, either))
        )

    def _keep(self, arm: Arm, operand: Span, loop: ForLoop) -> Iterator[JinjaCandidate]:
        asked = self.source.slice(operand)
        line = self.source.position(operand.start).line
        thoughts = [thought for thought in self._thoughts(arm, loop) if thought not in asked]
        others = [*thoughts, *[f"{each} or tools" for each in (*thoughts, "") if self.tools]]
        for other in others:
            either = f"{asked} or {other.removeprefix(' or ')}"
            put = either if operand == arm.tag.expression else f"({either})"
            yield JinjaCandidate(f"what line {line} drops is kept", (Edit(operand, put),))

    def _closed(self, arm: Arm, operand: Span, loop: ForLoop) -> Iterator[JinjaCandidate]:
        """A turn that the next one continues: with text in it it is closed, as it was when the next one was written."""
        asked, line = self.source.slice(operand), self.source.position(operand.start).line
        if asked not in self._later:
            return
        role = re.compile(rf"{re.escape(loop.target)}(\.role|\[['\"]role['\"]\])")
        for filled in self._filled:
            edits = [Edit(operand, f"({asked} and not (tools and {filled}))")]
            for tag in self.tags.tags:
                if tag.name != "set" or "." not in [token.text for token in tag.tokens[:2]]:
                    continue
                value = tag.tokens[next((i for i, t in enumerate(tag.tokens) if t.text == "="), 0) + 1 :]
                if value and role.fullmatch(self.tags.text(value)) and loop.span.contains(tag.span):
                    span = self.tags.layout.span(value[0].start, value[-1].end)
                    edits.append(Edit(span, f"none if tools and {filled} else {self.tags.text(value)}"))
            yield JinjaCandidate(f"the turn that line {line} leaves open is closed", tuple(edits), adds=True)

    @cached_property
    def _filled(self) -> list[str]:
        """The variables that say whether a message has text."""
        sets = [
            tag for tag in self.tags.tags if tag.name == "set" and len(tag.tokens) > 2 and tag.tokens[1].text == "="
        ]
        return [
            tag.tokens[0].text for tag in sets if re.search(r"content.*\|\s*length\s*>\s*0", self.tags.text(tag.tokens))
        ]

    def _thoughts(self, arm: Arm, loop: ForLoop) -> list[str]:
        """What an arm calls the thinking of a message: a variable, or a field of the message."""
        found: dict[str, None] = {}
        tokens = [token for token in self.tags.layout.tokens if token.kind not in ("whitespace", "data")]
        for index, token in enumerate(tokens):
            if token.kind != "name" or not _THOUGHT.search(token.text):
                continue
            span = self.tags.layout.span(token.start, token.end)
            if not Span(arm.tag.span.start, arm.body.end).contains(span) or token.text in self._later:
                continue
            before = [each.text for each in tokens[max(0, index - 2) : index]]
            if before == [loop.target, "."]:
                found.setdefault(f"{loop.target}.{token.text}")
            elif before[-1:] != ["."] and "enable" not in token.text and "preserve" not in token.text:
                found.setdefault(token.text)
        return list(found)

    # -- how

    def _first_user(self, loop: ForLoop) -> tuple[tuple[Edit, ...], str]:
        """A prelude that finds the first user turn, unless it is there already, and the question for it."""
        name = "first_user"
        lines = (
            f"{{%- set {name} = namespace(index=-1) %}}",
            f"{{%- for item in {loop.iterable} %}}",
            f"{{%- if {name}.index < 0 and item['role'] == 'user' %}}",
            f"{{%- set {name}.index = loop.index0 %}}",
            "{%- endif %}",
            "{%- endfor %}",
        )
        first = f"loop.index0 == {name}.index"
        if name in self.tags.names:
            return (), first
        return (self._before(loop, "\n".join(lines)),), first

    def _before(self, loop: ForLoop, text: str) -> Edit:
        """Template text in front of a loop; on lines of its own where the loop's tag trims what stands before it."""
        at = loop.tag.span.start
        if self._trims(loop.tag.span, left=True):
            return Edit(Span(at, at), f"{text}\n")
        return Edit(Span(at, at), text.replace("\n{%-", "{%").replace("{%-", "{%", 1))

    def _texts(self, tag: Tag, beside: Span) -> list[Span]:
        """The conjuncts of a condition, but for one part of it, that depend on what a message says."""
        said = [part for part in self.tags.conjuncts(tag) if not part.contains(beside)]
        return [
            part
            for part in said
            if self._said.decision(self._said.expression(self.source.slice(part))) is Decision.SAID
        ]

    @cached_property
    def _said(self) -> JinjaSaid:
        return JinjaSaid(self.tags)

    def _dropped(self, tag: Tag, parts: Sequence[Span]) -> list[Edit]:
        """Ask no more for some parts of a condition: conjuncts go, what stands deeper in it is taken for true."""
        conjuncts = self.tags.conjuncts(tag)
        gone = [each for each in conjuncts if any(self._all_of(each, part) for part in parts)]
        edits = [Edit(part, "true") for part in parts if not any(each.contains(part) for each in gone)]
        if len(gone) == len(conjuncts):
            return [*edits, Edit(Span(conjuncts[0].start, conjuncts[-1].end), "true")]
        leading = True
        for before, each, after in zip([None, *conjuncts], conjuncts, [*conjuncts[1:], None], strict=False):
            if each not in gone:
                leading = False
            elif leading and after is not None:
                edits.append(Edit(Span(each.start, after.start), ""))
            elif before is not None:
                edits.append(Edit(Span(before.end, each.end), ""))
        return edits

    def _edited(self, span: Span, edits: Sequence[Edit]) -> str:
        """A part of the source with edits."""
        data, at, made = self.source.data, span.start, b""
        for edit in sorted(edits, key=lambda each: each.span.start):
            made += data[at : edit.span.start] + edit.replacement.encode("utf-8", "surrogateescape")
            at = edit.span.end
        return (made + data[at : span.end]).decode("utf-8", "surrogateescape")

    def _all_of(self, conjunct: Span, part: Span) -> bool:
        return conjunct.contains(part) and self._bare(conjunct) == self._bare(part)

    def _bare(self, span: Span) -> str:
        return self.source.slice(span).strip("() \n\t")

    def _trims(self, tag: Span, *, left: bool) -> bool:
        data = self.source.data
        return data[tag.start + 2 : tag.start + 3] == b"-" if left else data[tag.end - 3 : tag.end - 2] == b"-"

    def _cut(self, span: Span) -> tuple[Edit, ...]:
        """Take a block out, with the white space that its own tags take."""
        data, start, end = self.source.data, span.start, span.end
        if self._trims(span, left=True):
            while data[start - 1 : start].isspace():
                start -= 1
        if self._trims(span, left=False):
            while data[end : end + 1].isspace():
                end += 1
        elif data[end : end + 1] == b"\n" and not self._trims(span, left=True):
            end += 1
        return (Edit(Span(start, end), ""),)


def _parted(before: Sequence[Piece], after: Sequence[Piece]) -> list[Piece]:
    """The pieces around the first difference of two prompts, and all tool and system text behind it."""
    at = 0
    while at < min(len(before), len(after)) and before[at] == after[at]:
        at += 1
    behind = (*before[at : at + _SHOWN], *after[at : at + _SHOWN])
    moved = [p for p in (*before[at:], *after[at:]) if p.origin is not None and p.origin.kind != "message"]
    return [*behind, *moved[:_SHOWN]]
