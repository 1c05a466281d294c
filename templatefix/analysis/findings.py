"""What a check of a template yields: findings, each with its place, the loop that shows it and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from templatefix.gotemplate.source import Span

Severity = Literal["error", "warning", "info"]
Verdict = Literal["stable", "unstable", "broken", "not-evaluated"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a cause costs on the loop that shows it."""

    kept_bytes: int  # of the step before, opening the step named
    prompt_bytes: int  # of the step named
    steps_without_tools: int
    steps: int  # of the loop
    when: str = ""  # on what it hangs; empty: on nothing


@dataclass(frozen=True, slots=True)
class Finding:
    """A place in a template that breaks a rule."""

    code: str  # "TF101"
    name: str  # "tools-follow-last-message"
    severity: Severity
    message: str  # one sentence for people
    span: Span  # bytes of the template
    loop: str | None  # the scenario that shows it
    step: int | None  # the request of that loop
    fixable: bool
    cost: Cost | None
    option: str = ""  # of `patch`, without which it is left as it is
