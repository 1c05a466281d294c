"""The numbers of tool calls, by which a result says which call it answers."""

from __future__ import annotations


def call_number(count: int) -> str:
    """The number of the call with that count from 1: nine letters and digits, since some templates insist on it."""
    return f"call{count:05d}"


class CallNumbers:
    """Gives calls their numbers, and results the numbers of the calls that they answer."""

    def __init__(self) -> None:
        self.count = 0
        self.open: list[tuple[str, str]] = []  # the client's own number, and the one given

    def begin(self) -> None:
        """A new turn with calls."""
        self.open = []

    def call(self, own: str, as_sent: bool) -> str:
        """The number of a call; one that stays as it was sent may have none."""
        self.count += 1
        if as_sent:
            return own
        given = call_number(self.count)
        self.open.append((own, given))
        return given

    def result(self, own: str) -> str:
        """The number of the call that a result answers."""
        for index, (asked, given) in enumerate(self.open):
            if own and own in (asked, given):
                del self.open[index]
                return given
        return own or (self.open.pop(0)[1] if self.open else "")
