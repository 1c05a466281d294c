"""What reports for maintainers say, by the kind of fault and by the project that gets them."""

from __future__ import annotations

from templatefix.analysis.findings import Finding
from templatefix.report.checked import SEVERITIES, Checked
from templatefix.report.upstream_requests import Repo

_TITLES = {
    "TF101": "tool definitions move with the last message, so the prompt cache is lost at every turn",
    "TF102": "tool definitions are gone from the prompt that follows a tool result",
    "TF103": "tools are left out unless there is a system message",
    "TF104": "a reminder about the tools moves, so part of every prompt is read again",
    "TF105": "tool definitions stand in one prompt more than once",
    "TF201": "the system text moves with the last message, so the prompt cache is lost at every turn",
    "TF202": "a user message renders differently once it is no longer the last",
    "TF203": "earlier turns render differently later, so the prompt cache is lost",
    "TF204": "the prompt's head changes with the day, so the prompt cache is lost",
    "TF205": "a system message sent later is joined into the head, so the prompt cache is lost",
    "TF206": "the assistant header at the end differs from the one in the history",
    "TF301": "tools or calls are printed as raw structs where the model expects JSON",
    "TF302": "tool results never reach the prompt",
    "TF303": "an assistant turn with text and a tool call loses one of them",
    "TF304": "two tool calls in one turn render to broken syntax",
    "TF305": "rendering fails as soon as tools are given",
    "TF401": "its TEMPLATE is not what prompts are made with",
    "TF402": "its template needs a newer server",
}
SENT_BY: dict[Repo, str] = {
    "ollama": "With `_debug_render_only` the server shows the prompt and generates nothing; any weights will do.",
    "llama.cpp": "`/apply-template` shows the prompt and generates nothing; any weights will do.",
    "huggingface": "Only the tokenizer's files are needed, no weights.",
}
_TOOL_TAG = (
    "The server reads tool calls from a tag that it takes from the template's first `if` on `.ToolCalls` "
    "(ollama/ollama#10949); the diff leaves that as it is."
)
_EVALUATE = "What it makes of them is for an evaluation to say."


def main_finding(checked: Checked) -> Finding | None:
    """The finding that a report is about: of the worst, the one with the lowest code."""
    return min(
        checked.findings, key=lambda found: (SEVERITIES.index(found.severity), found.code, found.span), default=None
    )


def title(name: str, finding: Finding) -> str:
    """The title of an issue."""
    return f"{name}: {_TITLES.get(finding.code, finding.name.replace('-', ' '))}"


def sentences(checked: Checked, finding: Finding) -> tuple[str, str, str]:
    """What happens, in three sentences: what is wrong, what it costs, and what else an agent sees of it."""
    end = "" if finding.message.endswith(("!", "?")) else "."
    return (finding.message.rstrip(".") + end, _cost(checked, finding), _further(checked, finding))


def _cost(checked: Checked, finding: Finding) -> str:
    cost = finding.cost
    if finding.code.startswith(("TF3", "TF4")) or cost is None or not finding.step:
        step = finding.step or 0
        where = f"request {step + 1} of a loop of user turns and tool calls" if step else "the first request already"
        return f"It shows in {where}, with any weights: it is in the prompt, before a model reads it."
    fresh = cost.prompt_bytes - cost.kept_bytes
    has = (
        f"In a loop of user turns and tool calls, request {finding.step + 1} has a prompt of {cost.prompt_bytes} bytes"
    )
    if cost.when:
        return (
            f"{has}: a server with a prompt cache keeps {cost.kept_bytes} of them {cost.when}, and reads {fresh} again."
        )
    return (
        f"{has}, of which only the first {cost.kept_bytes} are those of the prompt before: a server with a prompt "
        f"cache has to read the other {fresh}."
    )


def _further(checked: Checked, finding: Finding) -> str:
    bare, lost = checked.without_tools() or 0.0, checked.lost_bytes()
    if bare >= 0.005:
        return (
            f"In the agent loops that were tried, {bare:.0%} of the prompts have no tools although the request has, so "
            "the model cannot call any there."
        )
    if lost >= 1:
        return (
            f"Over the agent loops that were tried, {lost:.0f} bytes a request that stood in the prompt before are "
            "read again, with two small tools; with an agent's twenty tools it is thousands of tokens."
        )
    others = sorted({found.code for found in checked.findings} - {finding.code})
    also = f"; {', '.join(others)} are found as well" if others else ", and nothing else was found"
    return f"The agent loops that were tried keep their prefix{also}."


def notes(repo: Repo, kind: str, apart: str | None = None) -> tuple[str, ...]:
    """What belongs below a proposed diff; `apart` is what it changes beside the tools' place."""
    said = (_TOOL_TAG,) if repo == "ollama" and kind == "go" else ()
    if apart is None:
        return said
    return (*said, f"The model sees other prompts than before: {apart}. {_EVALUATE}")
