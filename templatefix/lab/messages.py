"""Loops sent as messages, to servers that render them with templates of their own.

Nothing is known of the prompts here: the replies of the script are not in the cache as if generated, and what is new
in a request is taken to be what its prompt has more than the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from templatefix.analysis.loops import Loop
from templatefix.lab.ab import Progress
from templatefix.lab.figures import AbResult, ArmFigures, RequestFigures
from templatefix.servers.errors import NotMeasurable
from templatefix.servers.openai_api import OpenAiServer


def run_messages(
    server: OpenAiServer,
    models: Sequence[str],
    loops: Sequence[Loop],
    progress: Callable[[Progress], None] = lambda _: None,
) -> AbResult:
    """Measure each model on every loop; raises ServerError.

    A server that has seen a loop before finds its first request in the cache too; that is no fault, as warm figures
    leave it out.
    """
    reasons: list[str] = []
    arms: list[ArmFigures] = []
    total = len(models) * sum(len(loop.requests) for loop in loops)
    interrupted = False
    for model in models:
        rows: list[RequestFigures] = []
        try:
            for loop in loops:
                for row in _rows(server, model, loop):
                    rows.append(row)
                    done = sum(len(arm.requests) for arm in arms) + len(rows)
                    progress(Progress(done, total, f"{model}: {loop.name}, step {row.step}"))
        except NotMeasurable as error:
            reasons.append(f"{model}: {error}")
        except KeyboardInterrupt:
            interrupted = True
            reasons.append(f"interrupted in the loops of {model}")
        warm = [row for row in rows if row.step > 0]
        if warm and not any(row.cached_tokens for row in warm):
            reasons.append(f"{model}: nothing came from the cache in any request, caching may be off")
        arms.append(ArmFigures(model, tuple(rows)))
        if interrupted:
            break
    return AbResult("openai", "field", server.url, tuple(arms), tuple(reasons), interrupted=interrupted)


def _rows(server: OpenAiServer, model: str, loop: Loop) -> Iterator[RequestFigures]:
    before = 0
    for step, request in enumerate(loop.requests):
        timings = server.read_messages(model, request.messages, request.tools)
        size = timings.prompt_tokens
        yield RequestFigures(
            scenario=loop.name,
            step=step,
            prompt_tokens=size,
            cached_tokens=timings.cached_tokens,
            fresh_tokens=timings.fresh_tokens,
            new_tokens=size if step == 0 else max(size - before, 0),
            prompt_ms=timings.prompt_ms,
            tools_in_prompt=bool(request.tools),
        )
        before = size
