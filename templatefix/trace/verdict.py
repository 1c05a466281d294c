"""Which layers lost what of one prompt, with the evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from templatefix.trace.blame import Cause, Loss, shared_out
from templatefix.trace.exchange import Exchange
from templatefix.trace.pair import Pair, Range
from templatefix.trace.scale import Scale

_FEW = 4  # tokens: an engine always reads the last one, and texts join into other tokens at their ends
_ROUGH = 0.02  # of a prompt whose tokens are reckoned from bytes
_MEMORY = "sliding window, or memory that cannot be wound back"


@dataclass(frozen=True)
class Case:
    """A request, the one before it in its conversation, and what is known of both."""

    pair: Pair | None  # None: one of both requests is not known
    before: Exchange | None
    after: Exchange
    prompt_tokens: int
    cached_tokens: int
    scale: Scale | None
    between: tuple[int, ...]  # requests of other conversations on the same slot
    same_slot: bool  # nothing else came to the slot
    cold: bool  # nothing ever came from the cache in this session
    selected: str  # the template in force, as the log says

    @property
    def fresh_tokens(self) -> int:
        """Tokens that were read."""
        return self.prompt_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was lost, and how much was new; a note where nothing could be lost."""

    losses: tuple[Loss, ...] = ()
    new_tokens: int | None = None
    note: str = ""


def judged(case: Case) -> Verdict:
    """The verdict on one request."""
    if case.after.logged is not None and case.after.logged.too_long:
        return Verdict(note="refused: it is longer than its context")
    if case.before is None:
        logged = case.after.logged
        if not case.after.readable and logged is not None and logged.taken_over:
            return Verdict(
                note="the slot held another conversation; whether this goes on from one, the log does not say"
            )
        return Verdict(new_tokens=case.prompt_tokens, note="a new conversation for this model")
    if case.after.logged is not None and case.after.cached_tokens is None:
        return Verdict(note="the log does not say how much was in the cache")
    if case.pair is None or case.scale is None:
        return _by_log(case)
    return _by_requests(case, case.pair, case.scale)


def _by_requests(case: Case, pair: Pair, scale: Scale) -> Verdict:
    known = _tokens([(part.start, part.end) for part in pair.known], scale)
    lost = _cut(known, case.cached_tokens)
    new = max(0, case.prompt_tokens - round(sum(end - start for start, end in known)))
    total = min(case.fresh_tokens, round(sum(end - start for start, end in lost)))
    earlier = case.before.prompt_tokens if case.before is not None else None
    if not pair.exact and earlier is not None and earlier - _FEW <= case.cached_tokens and pair.added_bytes >= 0:
        new = min(round(_most_new(case, pair)), case.fresh_tokens)
        total = case.fresh_tokens - new  # all of the earlier prompt was kept
    if pair.same:
        total, lost = max(0, total - 1), _cut(known, case.cached_tokens)
    if total <= _slack(case, pair):
        return Verdict(new_tokens=new)
    causes = list(_causes(case, pair, scale))
    return Verdict(
        shared_out(causes, lost, total, _unexplained(case, pair), 2 if pair.exact else _slack(case, pair)), new
    )


def _slack(case: Case, pair: Pair) -> float:
    """Tokens that are too few to speak of."""
    if not pair.exact:
        return _FEW + _ROUGH * case.prompt_tokens
    reply = pair.reply_range
    if reply is None or not pair.whole or case.scale is None or case.before is None:
        return _FEW
    # The reply's own tokens are reckoned from its bytes where the engine kept some of it.
    size = case.scale.tokens(reply[1]) - case.scale.tokens(reply[0])
    began = case.before.prompt_tokens is not None and case.cached_tokens > case.before.prompt_tokens
    return _FEW + (0.25 * size if began else 0.0)


def _causes(case: Case, pair: Pair, scale: Scale) -> Iterable[Cause]:
    """Every layer's reason."""
    cut = _cut_by_server(case)
    if cut is not None:
        yield Cause("server", cut, ((0.0, math.inf),), _log_evidence(case))
        return
    if case.after.no_cache:
        said = "the request asked for none of the cache (cache_prompt is false)"
        yield Cause("client", said, ((0.0, math.inf),), {"kind": "cache"})
        return
    broken: list[Cause] = []
    if pair.change is not None:
        ranges = _tokens(pair.lost_to_client(), scale)
        broken.append(Cause("client", pair.change.sentence, ranges, pair.change.evidence()))
    template = _template(case, pair, scale)
    if template is not None:
        broken.append(template)
    yield from broken
    engine = _engine(case, pair, scale, bool(broken))
    if engine is not None:
        yield engine


def _template(case: Case, pair: Pair, scale: Scale) -> Cause | None:
    """The template's reason, or the server's where it made one message of two."""
    if pair.exact and pair.template is not None and pair.neutral is not None and pair.after.request is not None:
        ranges = _tokens(pair.lost_to_template(), scale)
        if sum(end - start for start, end in _cut(ranges, case.cached_tokens)) <= _FEW:
            return _reply_cause(case, pair, scale)
        if pair.merged:
            said = "the server made one message of two that came from one role, so the earlier one no longer ends there"
            return Cause("server", said, ranges)
        evidence = pair.template.blame(pair.neutral, pair.after.request)
        place = f" (line {evidence['line']}, {evidence.get('code', 'no rule')})" if "line" in evidence else ""
        moved = (
            "the template moved what it had rendered"
            if pair.broken_at is None
            else "the template renders history otherwise"
        )
        return Cause("template", f"{moved}, though the request only grew{place}", ranges, evidence)
    return None if pair.change is not None or pair.exact else _template_by_sizes(case, pair)


def _template_by_sizes(case: Case, pair: Pair) -> Cause | None:
    """The template's reason by what the engine said of both prompts alone: a request only grew, its prompt did not."""
    earlier = case.before.prompt_tokens if case.before is not None else None
    if earlier is None or case.after.prompt_tokens is None:
        return None
    slack = _FEW + _ROUGH * earlier
    held, told = _held(case), {"earlier_tokens": earlier, "missing": "the template"}
    if pair.added_bytes > 0 and case.prompt_tokens < earlier - slack:
        said, start = "the prompt became shorter, though the request only grew", float(case.cached_tokens)
    elif case.cached_tokens >= earlier - _FEW:
        if case.prompt_tokens - earlier <= _most_new(case, pair):
            return None
        said, start = "the prompt grew by much more than the messages did", float(case.cached_tokens)
    elif held is not None and held < earlier - slack:
        said, start = "the prompts differ, though the request only grew", float(held)
    else:
        return None
    ranges = ((start, math.inf),)
    if case.selected not in ("", "go_template"):
        said += f"; it is made with another template than the tag's: {case.selected}"
        return Cause("server", said, ranges, told)
    return Cause("template", said, ranges, {**told, "common_tokens": held})


def _most_new(case: Case, pair: Pair) -> float:
    """Tokens that the new messages can take at most, however a template writes them."""
    count = (
        0
        if case.after.request is None or case.before is None or case.before.request is None
        else (len(case.after.request.messages) - len(case.before.request.messages))
    )
    return max(0, pair.added_bytes) / 2 + 48 * max(1, count)


def _reply_cause(case: Case, pair: Pair, scale: Scale) -> Cause | None:
    """The template's reason where only the reply was read again, and the client sent it back as it came."""
    if pair.reply_range is None or case.before is None or case.before.reply is None or pair.change is not None:
        return None
    ranges = _tokens([pair.reply_range], scale)
    said = "the template words the reply otherwise than the model had generated it"
    return Cause("template", said, ranges, {"message": pair.reply})


def _held(case: Case) -> int | None:
    """What the slot held of this prompt, where nobody else had used it since."""
    logged = case.after.logged
    return logged.common_tokens if logged is not None and case.same_slot else None


def _engine(case: Case, pair: Pair | None, scale: Scale | None, broken: bool) -> Cause | None:
    """The engine's reason, where it kept less than the prompts have in common."""
    kept = _could_keep(case, pair, scale)
    if kept is None or case.after.cached_tokens is None:
        return None
    slack = _FEW if _held(case) is not None else _FEW + 0.05 * kept
    if kept - case.cached_tokens <= slack:
        return None
    found = _engine_reason(case)
    if found is None:
        return None
    sentence, kind, own = found
    evidence = {**_log_evidence(case), "reason": kind, "could_keep": round(kept)}
    earlier, held = case.before.prompt_tokens if case.before is not None else None, _held(case)
    if not own and held is not None and earlier is not None and held < min(earlier, case.prompt_tokens) - _FEW:
        sentence += f"; the prompt had changed at token {held}, by the client or its template"
        evidence["changed_at"] = held
    if own or not broken:
        return Cause("engine", sentence, ((float(case.cached_tokens), math.inf),), evidence)
    evidence["together_tokens"] = round(kept - case.cached_tokens)
    said = f"{sentence}; it would have kept this, had the prompt not changed in front"
    return Cause("engine", said, ((float(case.cached_tokens), kept),), evidence, follows=True)


def _could_keep(case: Case, pair: Pair | None, scale: Scale | None) -> float | None:
    """Tokens of this prompt that its conversation had in the cache."""
    held = _held(case)
    if held is not None:
        return float(held)
    if pair is None or scale is None:
        earlier = case.before.prompt_tokens if case.before is not None else None
        return None if earlier is None else float(min(earlier, case.prompt_tokens))
    places = [pair.kept_bytes] if pair.exact else []
    if not pair.exact:
        places = [max((part.end for part in pair.known), default=0)]
        places += [start for start, _ in pair.lost_to_client()]
    return scale.tokens(min(places))


def _engine_reason(case: Case) -> tuple[str, str, bool] | None:
    """A sentence, a word, and whether the engine does this also to prompts that only grow."""
    restart = next((event for event in case.after.events if event.kind == "restart"), None)
    logged = case.after.logged
    if restart is not None or _other_context(case):
        why = "for another context size" if _other_context(case) else "since the request before"
        return f"the engine was started anew {why}: its cache was empty", "restart", True
    if case.after.loaded_anew:
        return f"the model was loaded anew, in {case.after.load_ms:.0f} ms: its cache was empty", "restart", True
    if logged is not None and logged.forced:
        return f"the engine could not go back in its memory and read the whole prompt ({_MEMORY})", "swa", False
    if logged is not None and logged.checkpoint is not None:
        said = f"the engine went back to a copy of its memory from token {logged.checkpoint} ({_MEMORY})"
        return said, "checkpoint", False
    if case.between:
        others = ", ".join(map(str, case.between[:5]))
        return f"another conversation took the slot in between (request {others})", "slot", True
    if logged is not None and logged.taken_over:
        return "the slot held another conversation", "slot", True
    if case.before is not None and case.before.slot != case.after.slot and case.after.slot is not None:
        return f"the request ran in slot {case.after.slot}, the one before in {case.before.slot}", "slot", True
    if case.cold and case.pair is not None and not case.pair.whole:
        said = "nothing comes from the cache in any request: it is off, or the engine cannot go back in its memory"
        return said, "cold", False
    if case.cold:
        return "nothing comes from the cache in any request: it seems to be off", "off", True
    if case.after.figures == "estimate":
        own = case.pair is None or case.pair.whole
        return "by the time that it took, most of this prompt was read again", "time", own
    return None


def _other_context(case: Case) -> bool:
    if case.before is None:
        return False
    sizes = [exchange.logged.context if exchange.logged else None for exchange in (case.before, case.after)]
    asked = [case.before.context, case.after.context]
    return any(one is not None and other is not None and one != other for one, other in (sizes, asked))


def _cut_by_server(case: Case) -> str | None:
    """The sentence where the server or the engine cut the history."""
    event = next((event for event in case.after.events if event.kind == "truncated"), None)
    if event is not None:
        return f"the server cut the history to fit the context ({event.text})"
    for exchange, which in ((case.before, "request before"), (case.after, "request")):
        if exchange is not None and exchange.logged is not None and exchange.logged.truncated:
            return f"the context was full in the {which}: the engine dropped tokens in its middle"
    return None


def _by_log(case: Case) -> Verdict:
    """What a log alone can tell."""
    earlier = case.before.prompt_tokens if case.before is not None else None
    if earlier is None:
        return Verdict(note="the log does not say how long the prompt before was")
    could, kept = min(earlier, case.prompt_tokens), _held(case)
    if kept is not None and case.prompt_tokens < earlier:
        could = min(could, kept)  # of a prompt that became shorter, nobody knows what is old behind that
    total = max(0, min(case.fresh_tokens, could - case.cached_tokens))
    if total <= _FEW + _ROUGH * could:
        return Verdict()
    lost = ((float(case.cached_tokens), float(case.cached_tokens + total)),)
    causes: list[Cause] = []
    cut = _cut_by_server(case)
    if cut is not None:
        causes.append(Cause("server", cut, ((0.0, math.inf),), _log_evidence(case)))
    else:
        held = _held(case)
        engine = _engine(case, None, None, False)
        if engine is not None:
            until = math.inf if held is None else float(held)
            causes.append(replace(engine, ranges=((float(case.cached_tokens), until),)))
    return Verdict(shared_out(causes, lost, total, _unexplained(case, None)))


def _unexplained(case: Case, pair: Pair | None) -> str:
    """What is missing to say more."""
    if pair is None:
        return "the prompt changed in front of what is new; the requests would tell by whom"
    missing = []
    if not pair.exact:
        missing.append("the model's template")
    if case.after.logged is None:
        missing.append("the server's log")
    if case.before is not None and case.before.reply is None and pair.reply is not None:
        missing.append("the reply as it was generated")
    return f"not told apart; missing: {', '.join(missing)}" if missing else "nothing that was recorded says why"


def _log_evidence(case: Case) -> dict[str, Any]:
    logged = case.after.logged
    if logged is None:
        return {}
    source = case.after.place if not case.after.readable else ""
    found: dict[str, Any] = {"line": logged.line, "slot": logged.slot, "forced": logged.forced}
    found |= {"checkpoint": logged.checkpoint, "common_tokens": logged.common_tokens, "context": logged.context}
    events = [f"line {event.line}: {event.text}" for event in case.after.events if event.kind != "selection"]
    return {**found, "events": events, **({"log": source} if source else {})}


def _tokens(ranges: Iterable[Range], scale: Scale) -> tuple[tuple[float, float], ...]:
    return tuple([(scale.tokens(start), scale.tokens(end)) for start, end in ranges if end > start])


def _cut(ranges: Iterable[tuple[float, float]], start: int) -> tuple[tuple[float, float], ...]:
    """What of the ranges lies behind a token."""
    return tuple([(max(first, float(start)), last) for first, last in ranges if last > start])
