"""What a client changed between two requests of one conversation, of what it had sent before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from templatefix.analysis.stability import common_prefix
from templatefix.chat.request import Request
from templatefix.trace.conversations import essence, fingerprint
from templatefix.trace.texts import common_end

Kind = Literal["message", "dropped", "tools-absent", "tools-added", "tools-order", "tools", "reply", "think", "prompt"]
_AROUND = 24  # characters shown in front of the first difference
_SHOWN = 80
_LITTLE = 2  # characters beside a time that make it no other text
_LEAP = 200  # characters behind a difference where two prompts are compared again
_TIMES = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\b\d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp]\.?[Mm]\.?)?"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\b1[5-9]\d{8}(?:\d{3})?\b"
    r"|\b(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.? \d{1,2}\b"
)


@dataclass(frozen=True, slots=True)
class ClientChange:
    """The first thing that a client changed, and the rest in the words of deepdiff."""

    kind: Kind
    message: int | None  # index in the later request
    offset: int | None  # characters into the message's text up to which it is unchanged
    sentence: str
    before: str = ""  # around the first difference
    after: str = ""
    time_stamp: bool = False
    paths: tuple[str, ...] = field(default=())  # what else changed

    def evidence(self) -> dict[str, Any]:
        """As it stands in the JSON."""
        found = {"kind": self.kind, "message": self.message, "before": self.before, "after": self.after}
        return {**found, "time_stamp": self.time_stamp, "changed": list(self.paths)}


def kept_messages(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> int:
    """How many messages of the later request repeat the earlier one, changed or not."""
    if len(new) >= len(old):
        return len(old)
    known = {essence(message) for message in old}
    return max((index + 1 for index, message in enumerate(new) if essence(message) in known), default=0)


def prompt_change(old: str, new: str) -> tuple[ClientChange, int] | None:
    """A change within prompts that were sent as text, and the character up to which the later one repeats the earlier.

    None where the later one goes on from the earlier, and where what is old behind the first difference is not to be
    told from what is new.
    """
    offset = common_prefix(old, new)
    block = old[offset + _LEAP : offset + 2 * _LEAP]
    if len(block) < _LEAP:
        return None
    same = new.startswith(block, offset + _LEAP)  # a time changes no length, as a rule
    again = offset + _LEAP if same else new.find(block, offset)
    if again < 0:
        return None
    stamp = _stamped([old, new], offset)
    said = "a time in the prompt changed" if stamp else "the prompt, sent as text, was changed"
    change = ClientChange(
        "prompt", None, offset, f"{said} in front of what is new", _excerpt(old, offset), _excerpt(new, offset), stamp
    )
    return change, again + common_prefix(old[offset + _LEAP :], new[again:])


def client_change(old: Request, new: Request, reply: Mapping[str, Any] | None) -> ClientChange | None:
    """What was changed, the first place of a prompt with tools in its head; None where the request only grew.

    `reply` is what the server answered to the earlier request, where it is known.
    """
    found = _tools(old.tools, new.tools)
    system = _message(old, new, head=True)
    if system is not None:
        return system
    return found or _message(old, new, head=False) or _think(old, new) or _reply(old, new, reply)


def _tools(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> ClientChange | None:
    prints = [[fingerprint(tool) for tool in tools] for tools in (old, new)]
    if prints[0] == prints[1]:
        return None
    if not new:
        return ClientChange(
            "tools-absent", None, None, f"this request came without the {len(old)} tools of the one before"
        )
    if not old:
        return ClientChange(
            "tools-added", None, None, f"this request came with {len(new)} tools, the one before had none"
        )
    if sorted(prints[0]) == sorted(prints[1]):
        first = next(i for i, (a, b) in enumerate(zip(*prints, strict=True)) if a != b)
        names = [_name(tools[first]) for tools in (old, new)]
        return ClientChange(
            "tools-order", None, None, f"the tools came in another order, from {names[1]} on", names[0], names[1]
        )
    first = next((i for i, (a, b) in enumerate(zip(*prints, strict=False)) if a != b), min(len(old), len(new)))
    paths = _paths(list(old), list(new))
    name = _name((new if first < len(new) else old)[first])
    return ClientChange("tools", None, None, f"the tools changed, first {name}", paths=paths)


def _name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    return str(function.get("name", "?")) if isinstance(function, Mapping) else "?"


def _message(old: Request, new: Request, head: bool) -> ClientChange | None:
    """The first message that differs, among the system messages at the head or behind them."""
    kept = kept_messages(old.messages, new.messages)
    for index, (before, after) in enumerate(zip(old.messages, new.messages[:kept], strict=False)):
        if essence(before) == essence(after):
            continue
        if (after.get("role") == "system" and index == 0) != head:
            if head:
                return None
            continue
        return _changed(old.messages, new.messages, index, kept)
    if not head and kept < len(old.messages) and kept < len(new.messages):
        return _dropped(old.messages, new.messages, kept)
    return None


def _changed(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], index: int, kept: int) -> ClientChange:
    before, after = old[index], new[index]
    later = [essence(message) for message in old[index + 1 :]]
    if before.get("role") != after.get("role") or essence(after) in later:
        if essence(after) in later:
            return _dropped(old, new, index)
        return ClientChange(
            "message",
            index,
            0,
            f"message {index} is another one, {after.get('role')} instead of {before.get('role')}",
            paths=_paths(dict(before), dict(after)),
        )
    texts = [str(message.get("content") or "") for message in (before, after)]
    offset = common_prefix(*texts)
    stamp = _stamped(texts, offset)
    shown = [_excerpt(text, offset) for text in texts]
    place = f"message {index} ({after.get('role')})"
    if texts[0] == texts[1]:
        said = "the calls" if before.get("tool_calls") != after.get("tool_calls") else "the thinking"
        sentence = f"{said} of {place} were rewritten"
    elif stamp:
        sentence = f"a time in {place} changed when the history was sent again"
    else:
        sentence = f"{place} was rewritten when the history was sent again"
    paths = _paths([dict(m) for m in old[index:kept]], [dict(m) for m in new[index:kept]], index)
    return ClientChange("message", index, offset, sentence, shown[0], shown[1], stamp, paths)


def _dropped(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], index: int) -> ClientChange:
    if index < len(new):
        known = [essence(message) for message in old]
        following = essence(new[index])
        if following in known[index:]:
            gone = known.index(following, index) - index
            sentence = f"{gone} messages, from message {index} on, were taken out of the history"
            return ClientChange("dropped", index, 0, sentence, before=_excerpt(str(old[index].get("content") or ""), 0))
    return ClientChange("dropped", index, 0, f"the history ends at message {index}, the rest was taken out")


def _think(old: Request, new: Request) -> ClientChange | None:
    if (old.think, old.think_level) == (new.think, new.think_level):
        return None
    before, after = (f"{request.think_level or request.think}".lower() for request in (old, new))
    return ClientChange("think", None, None, f"the wish to think changed from {before} to {after}", before, after)


def _reply(old: Request, new: Request, reply: Mapping[str, Any] | None) -> ClientChange | None:
    index = len(old.messages)
    if reply is None or index >= len(new.messages) or new.messages[index].get("role") != "assistant":
        return None
    sent = new.messages[index]
    if essence(reply)[1:] == essence(sent)[1:]:
        return None
    if [*essence(reply)[1:2], essence(reply)[3]] == [*essence(sent)[1:2], essence(sent)[3]]:
        return ClientChange("reply", index, None, f"the thinking of the reply was not sent back in message {index}")
    texts = [str(message.get("content") or "") for message in (reply, sent)]
    offset = common_prefix(*texts)
    return ClientChange(
        "reply",
        index,
        offset,
        f"message {index} is not what the server had answered",
        _excerpt(texts[0], offset),
        _excerpt(texts[1], offset),
    )


def _stamped(texts: Sequence[str], offset: int) -> bool:
    """Whether two texts first differ within a time or date of both, or by one that was put in or left out."""
    if all(_in_time(text, offset) for text in texts):
        return True
    rest = min(len(text) for text in texts) - offset
    end = min(rest, common_end(*texts))
    between = [text[offset : len(text) - end] for text in texts]
    return any(len(one) <= _LITTLE and _TIMES.search(other[:200]) for one, other in (between, between[::-1]))


def _in_time(text: str, offset: int) -> bool:
    start = max(0, offset - 40)
    found = _TIMES.finditer(text[start : offset + 60])
    return any(match.start() + start <= offset <= match.end() + start for match in found)


def _excerpt(text: str, offset: int) -> str:
    start = max(0, offset - _AROUND)
    shown = text[start : start + _SHOWN].replace("\n", "⏎")
    return ("…" if start else "") + shown + ("…" if start + _SHOWN < len(text) else "")


def _paths(old: Any, new: Any, first: int = 0) -> tuple[str, ...]:
    """What differs, in deepdiff's words; paths count from the first message that was compared."""
    from deepdiff import DeepDiff

    found: list[str] = []
    for kind, entries in DeepDiff(old, new, verbose_level=1).items():
        for path in entries:
            moved = (
                re.sub(r"^root\[(\d+)\]", lambda match: f"messages[{int(match[1]) + first}]", str(path))
                if isinstance(old, list)
                else str(path)
            )
            found.append(f"{kind}: {moved}")
    return tuple(found[:20])
