"""Two requests of one conversation side by side: what of the later prompt could have come from the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from templatefix.analysis.stability import common_prefix
from templatefix.chat.request import Request
from templatefix.trace.client import ClientChange, client_change, kept_messages, prompt_change
from templatefix.trace.exchange import Exchange
from templatefix.trace.prompts import SYSTEM, TAIL, Layout, Stretch, as_text, laid_out, rendered
from templatefix.trace.templates import KnownTemplate

Range = tuple[int, int]  # bytes of the later prompt
_LONGER = 64  # bytes that take tokens, whatever the text
_MOST_BYTES = 16  # a token, on average of a long text


def layout_of(exchange: Exchange, template: KnownTemplate | None) -> Layout | None:
    """A request's prompt, rendered where its template is known; None where the request is not."""
    if exchange.prompt is not None:
        return as_text(exchange.prompt)
    if exchange.request is None:
        return None
    rendering = template.render(exchange.request) if template is not None else None
    return laid_out(exchange.request) if rendering is None else rendered(rendering, exchange.request)


@dataclass(frozen=True)
class Pair:
    """Two requests that are known, the later going on from the earlier, and both prompts."""

    before: Exchange
    after: Exchange
    old: Layout
    new: Layout
    template: KnownTemplate | None

    @property
    def exact(self) -> bool:
        """Whether both prompts are the real ones."""
        known = self.old.rendering is not None and self.new.rendering is not None
        return known or (self.before.prompt is not None and self.after.prompt is not None)

    @cached_property
    def change(self) -> ClientChange | None:
        """What the client changed."""
        if self._prompts is not None:
            return self._prompts[0]
        if self.before.request is None or self.after.request is None:
            return None
        return client_change(self.before.request, self.after.request, self.before.reply)

    @cached_property
    def _prompts(self) -> tuple[ClientChange, int] | None:
        if self.before.prompt is None or self.after.prompt is None or self.whole:
            return None
        return prompt_change(self.before.prompt, self.after.prompt)

    @cached_property
    def _kept(self) -> int:
        if self.before.request is None or self.after.request is None:
            return 0
        return kept_messages(self.before.request.messages, self.after.request.messages)

    @cached_property
    def reply(self) -> int | None:
        """The message that the server had generated."""
        if self.before.request is None or self.after.request is None:
            return None
        messages = self.after.request.messages
        replied = self._kept == len(self.before.request.messages) < len(messages)
        return self._kept if replied and messages[self._kept].get("role") == "assistant" else None

    @property
    def _first_new(self) -> int:
        return self._kept if self.reply is None else self.reply + 1

    @cached_property
    def neutral(self) -> Request | None:
        """The earlier request as the client would have sent it, had it changed nothing: the later one, cut."""
        if self.after.request is None:
            return None
        return replace(self.after.request, messages=self.after.request.messages[: self._kept])

    @cached_property
    def _neutral_layout(self) -> Layout | None:
        if self.neutral is None:
            return self.old if self.after.prompt is not None else None
        return layout_of(replace(self.after, request=self.neutral), self.template if self.exact else None)

    @cached_property
    def changed_at(self) -> int | None:
        """The byte up to which the client's change leaves the earlier prompt as it was; None where nothing changed."""
        if self.change is None or self._neutral_layout is None:
            return None
        return common_prefix(self.old.data, self._neutral_layout.data)

    @cached_property
    def broken_at(self) -> int | None:
        """The byte at which the prompts differ though no client changed anything; None: the later one goes on."""
        layout = self._neutral_layout
        if not self.exact or layout is None:
            return None
        kept = common_prefix(layout.data, self.new.data)
        return None if kept >= layout.size else kept

    @cached_property
    def kept_bytes(self) -> int:
        """How much of the later prompt the earlier one opens."""
        return common_prefix(self.old.data, self.new.data)

    @property
    def whole(self) -> bool:
        """Whether the later prompt goes on from all of the earlier one."""
        return self.kept_bytes == self.old.size

    @property
    def seems_cut(self) -> bool:
        """Whether the later prompt is of no more tokens though its text is longer: the server cut it before it read.

        Ollama 0.30.0 counts the tokens that it read instead, which are far fewer than the text has.
        """
        before, after = self.before.prompt_tokens, self.after.prompt_tokens
        if before is None or after is None or self.old.rendering is None or self.new.rendering is None:
            return False
        return after <= before and self.new.size >= self.old.size + _LONGER and self.new.size <= _MOST_BYTES * after

    @property
    def same(self) -> bool:
        """Whether both prompts are the same."""
        return self.whole and self.new.size == self.old.size

    @cached_property
    def known(self) -> tuple[Stretch, ...]:
        """The stretches that could have come from the cache: all but new messages and the generation tail."""
        if self.same:
            return self.new.stretches
        if self.after.prompt is not None:
            again = self._prompts[1] if self._prompts is not None else 0
            known = len(self.after.prompt[:again].encode("utf-8", "surrogatepass"))
            return (Stretch(SYSTEM, 0, max(self.kept_bytes, known)),)
        return tuple([part for part in self.new.stretches if part.owner != TAIL and part.owner < self._first_new])

    @cached_property
    def reply_range(self) -> Range | None:
        """Where the reply stands."""
        parts = [part for part in self.new.stretches if self.reply is not None and part.owner == self.reply]
        return (max(parts[0].start, self.kept_bytes), parts[-1].end) if parts else None

    def lost_to_client(self) -> Iterator[Range]:
        """What lies behind the client's change in a prompt that has its system text and tools in front."""
        if self.change is None:
            return
        heads = self._heads
        # A server that makes one message of two leaves it to the first.
        owners = [part.owner for part in self.known if 0 <= part.owner <= (self.change.message or 0)]
        changed = max(owners, default=self.change.message)
        for part in self.known:
            if self.change.kind in ("think", "prompt"):
                yield from self._behind(part, self.kept_bytes)
            elif self.change.kind == "reply":
                if part.owner == self.reply:
                    yield part.start, part.end
            elif self.change.message is None:
                if part.owner != SYSTEM:
                    yield part.start, part.end
            elif part.owner == (SYSTEM if self.change.message < heads else changed):
                inside = self.changed_at is not None and part.start <= self.changed_at < part.end
                yield (self.changed_at or 0) if inside else part.start, part.end
            elif self.change.message < heads or part.owner > self.change.message:
                yield part.start, part.end

    @property
    def _heads(self) -> int:
        count = 0
        for message in self.after.request.messages if self.after.request is not None else ():
            if message.get("role") != "system":
                break
            count += 1
        return count

    def lost_to_template(self) -> Iterator[Range]:
        """What lies behind the place where the prompts differ by themselves, and what was moved behind the new."""
        if not self.exact or self._neutral_layout is None:
            return
        at = self.broken_at if self.broken_at is not None else self._neutral_layout.size
        for part in self.known:
            if self.broken_at is not None or part.owner != self.reply:
                yield from self._behind(part, at)

    def _behind(self, part: Stretch, at: int) -> Iterator[Range]:
        if part.end > at:
            yield max(part.start, at), part.end

    @property
    def merged(self) -> bool:
        """Whether a new message has the role of the last one, so that the server makes one message of both."""
        if self.before.request is None or self.after.request is None or self.broken_at is None:
            return False
        messages = self.after.request.messages
        if not 0 < self._kept < len(messages):
            return False
        roles = [messages[index].get("role") for index in (self._kept - 1, self._kept)]
        last = [part.start for part in self.new.stretches if part.owner == self._kept - 1]
        return roles[0] == roles[1] != "tool" and bool(last) and self.broken_at >= last[0]

    @property
    def added_bytes(self) -> int:
        """How much the messages behind the earlier request and its reply hold, laid out without a template."""
        return self.new.size - self.old.size
