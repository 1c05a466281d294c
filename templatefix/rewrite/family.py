"""A Go template of the same family in the place of a Jinja text: what of a proof makes sense across two languages.

The words of both differ, so this is another template, not an edit of the first: `apart` says so. It is shown that its
own prompts only grow, that the tools stand in each once and that no message is lost; the words that go and come are
listed, and where nothing can be compared there is no replacement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from templatefix.analysis.analyse import Analysis, analyse
from templatefix.analysis.loops import core_loops
from templatefix.analysis.stability import LoopRun
from templatefix.chat.go import GoChatTemplate
from templatefix.chat.rendering import RenderError, Rendering
from templatefix.chat.request import Request
from templatefix.gotemplate.gojson import quote
from templatefix.rewrite.patch import patch as patch_go
from templatefix.rewrite.proof import Baseline, Check, Proof
from templatefix.rewrite.result import PatchResult
from templatefix.rewrite.words import Word, words_of

if TYPE_CHECKING:
    from templatefix.chat.jinja import JinjaChatTemplate


class NoReplacement(Exception):
    """A Go template cannot stand in a Jinja text's place; the string is a clause that says why."""


@dataclass(frozen=True)
class Replacement(PatchResult):
    """What became of a Jinja text that a Go template of its family is to replace.

    `no_tools_identical` of its proof may fail, since this is another template: `apart` names it.
    """

    family: str = ""
    parser: str = ""  # the server's reader of calls that the template needs beside it; empty: none
    before: str = ""  # the first prompt with tools, by the Jinja text
    after: str = ""  # the same by the Go template

    def to_json(self, target: str) -> dict[str, Any]:
        """The JSON of `patch`, with the family and its parser."""
        return {**super().to_json(target), "family": self.family or None, "parser": self.parser or None}


def replace_by(
    jinja: JinjaChatTemplate,
    analysis: Analysis,
    variant: GoChatTemplate,
    *,
    family: str,
    parser: str,
    capabilities: Collection[str],
) -> Replacement:
    """Prove a family's Go template in the place of a Jinja text; `capabilities` are those that the server sees in it.

    `analysis` is the Jinja text's. Raises NoReplacement where a point of the proof other than `no_tools_identical`
    does not hold.
    """
    pair = _first_prompts(jinja, variant)
    checks = dict(_checks(jinja, variant, capabilities, pair))
    for name, check in checks.items():
        if not check.holds and name != _ALIKE:
            raise NoReplacement(f"the template of the family {family} is no help: {name}: {check.reason}")
    assert pair is not None
    after = analyse(variant)
    gone = {finding.code for finding in analysis.findings} - {finding.code for finding in after.findings}
    dropped, added = _differences(*pair)
    return Replacement(
        jinja.source.text,
        variant.source.text,
        True,
        tuple(sorted(gone)),
        proof=Proof(checks),
        remaining=after.findings,
        dropped_text=dropped,
        added_text=added,
        apart=f"this is another template of the family {family}, since Ollama takes no Jinja text from a client",
        family=family,
        parser=parser,
        before=pair[0].text,
        after=pair[1].text,
    )


_ALIKE = "no_tools_identical"
_BY_CHANCE = 4  # words
_NO_VALUE = "<no value>"  # what Go prints for a name that its data lacks
_PLAIN = re.compile(r"[\w.,:;'-]+")  # no mark such as <tools>


def _checks(
    jinja: JinjaChatTemplate,
    variant: GoChatTemplate,
    capabilities: Collection[str],
    pair: tuple[Rendering, Rendering] | None,
) -> Iterator[tuple[str, Check]]:
    runs = Baseline(variant, thoughts=True).runs
    yield "parses", _parses(variant, runs)
    yield "derived_unchanged", _derived(variant, capabilities)
    yield "prefix_stable", _stable(runs)
    yield _ALIKE, _alike(jinja, variant)
    yield "tools_once", _tools_once(runs)
    yield "messages_kept", _messages_kept(runs, variant.has_think_tags)
    yield "conserved", _compared(pair)
    result = patch_go(variant)
    again = result.changed or bool(result.refused)
    yield "idempotent", Check(not again, 1, "patching the template changes it again" if again else None)


def _parses(variant: GoChatTemplate, runs: Sequence[LoopRun]) -> Check:
    """Whether Go's grammar accepts the text, and each name in it has a value where a loop comes by."""
    try:
        GoChatTemplate(variant.source.text)
    except RenderError as error:
        return Check(False, 1, error.message)
    steps = [step for run in runs for step in run.steps]
    if any(_NO_VALUE in step.rendering.text for step in steps):
        return Check(False, 1 + len(steps), f"a name in it stands for nothing: {_NO_VALUE} is printed")
    return Check(True, 1 + len(steps))


def _compared(pair: tuple[Rendering, Rendering] | None) -> Check:
    """What goes and what comes is listed, out of the prompts of one request; without them nothing is known of it."""
    if pair is None:
        return Check(False, 0, "the Jinja text renders no request with tools, so there is nothing to compare with")
    return Check(True, len(pair))


def _derived(variant: GoChatTemplate, capabilities: Collection[str]) -> Check:
    lost = sorted({*capabilities} - {*variant.derived.capabilities})
    if lost:
        return Check(False, 1, f"the model would lose its capability {', '.join(lost)}")
    if not variant.derived.round_trip:
        return Check(False, 1, "the server would not take it for a full tool template")
    return Check(True, 1)


def _stable(runs: Sequence[LoopRun]) -> Check:
    renders = 0
    for run in runs:
        renders += len(run.steps)
        if run.error is not None:
            return Check(False, renders, f"loop {run.loop.name}: {run.error}")
        if run.lost:
            return Check(False, renders, f"loop {run.loop.name}, step {run.lost[0]}: the prompt before is not kept")
    return Check(True, renders)


def _alike(jinja: JinjaChatTemplate, variant: GoChatTemplate) -> Check:
    prompts = [(request, before) for request, before in Baseline(jinja).chats if isinstance(before, Rendering)]
    other = sum(_text(variant, request) != before.text for request, before in prompts)
    said = f"of {len(prompts)} prompts without tools {other} differ" if other else None
    return Check(not other, len(prompts), said)


def _text(variant: GoChatTemplate, request: Request) -> str | None:
    try:
        return variant.render_text(variant.as_served(request))
    except RenderError:
        return None


def _tools_once(runs: Sequence[LoopRun]) -> Check:
    renders = 0
    for run in runs:
        for step in run.steps:
            renders += 1
            if step.tools != 1:
                reason = f"loop {run.loop.name}, step {step.index}: the tools stand {step.tools} times"
                return Check(False, renders, reason)
    return Check(True, renders)


def _messages_kept(runs: Sequence[LoopRun], thinks: bool) -> Check:
    renders = 0
    for run in runs:
        for step in run.steps:
            renders += 1
            lost = _lost(step.request, step.rendering.text, thinks)
            if lost is not None:
                return Check(False, renders, f"loop {run.loop.name}, step {step.index}: {lost}")
    return Check(True, renders)


def _lost(request: Request, prompt: str, thinks: bool) -> str | None:
    """The first text of a request that a prompt lacks, or has at another place."""
    said = list(_said(request, thinks))
    places, end = [], 0
    for text, _ in said:
        found = prompt.find(text, end)
        if found < 0:
            return f"{text[:40]!r} is lost, or stands elsewhere"
        end = found + len(text)
        places.append((found, end))
    begins = [begin for begin, _ in places[1:]] + [len(prompt)]
    ends = [0] + [end for _, end in places[:-1]]
    for (text, arguments), begin, end in zip(said, ends, begins, strict=True):
        stretch = prompt[begin:end]  # from the text before to the text behind
        for argument in _strings(arguments):
            if not any(form in stretch for form in (argument, _json_of(argument), quote(argument)[1:-1])):
                return f"the argument {argument[:40]!r} of {text} is lost, or stands elsewhere"
    return None


def _said(request: Request, thinks: bool) -> Iterator[tuple[str, Any]]:
    """What every message says, in order: its thinking, its text, the tools that it calls with their arguments."""
    for message in request.messages:
        if thinks and message.get("thinking"):
            yield message["thinking"], None
        yield message.get("content") or "", None
        for call in message.get("tool_calls") or ():
            yield call["function"]["name"], call["function"].get("arguments")


def _strings(value: Any) -> Iterator[str]:
    """All strings in a value of JSON, the names of members among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield name
            yield from _strings(member)
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _strings(member)


def _json_of(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _first_prompts(jinja: JinjaChatTemplate, variant: GoChatTemplate) -> tuple[Rendering, Rendering] | None:
    """The first request of the core loops that both render."""
    for request in [request for loop in core_loops() for request in loop.requests]:
        try:
            return jinja.render(jinja.as_served(request)), variant.render(variant.as_served(request))
        except RenderError:
            continue
    return None


def _differences(before: Rendering, after: Rendering) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of the template itself that the one prompt has and the other has not, passage by passage."""
    old, new = ([word for word in words_of(each) if not word.is_tool] for each in (before, after))
    dropped: list[str] = []
    added: list[str] = []
    for taken, put in _passages(old, new):
        dropped += _runs(taken)
        added += _runs(put)
    return tuple(dropped), tuple(added)


def _passages(old: Sequence[Word], new: Sequence[Word]) -> Iterator[tuple[Sequence[Word], Sequence[Word]]]:
    """Where both differ; a few words that they share by chance do not part a passage."""
    matcher = SequenceMatcher(None, [word.text for word in old], [word.text for word in new], autojunk=False)
    start, end = 0, 0
    for block in matcher.get_matching_blocks():
        shared = old[block.a : block.a + block.size]
        plain = all(word.origin is None and _PLAIN.fullmatch(word.text) for word in shared)
        if shared and plain and block.size < _BY_CHANCE:
            continue
        if block.a > start or block.b > end:
            yield old[start : block.a], new[end : block.b]
        start, end = block.a + block.size, block.b + block.size


def _runs(words: Iterable[Word]) -> Iterator[str]:
    text = ""
    for word in words:
        if word.origin is not None:
            if text:
                yield text
            text = ""
        else:
            text += (word.gap or "") + word.text if text else word.text
    if text:
        yield text
