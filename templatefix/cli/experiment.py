"""What `ab` measures, and the embedded engine to measure it on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from templatefix.cli.inputs import known
from templatefix.cli.output import CliError, progress_line

if TYPE_CHECKING:
    from templatefix.analysis.loops import Loop
    from templatefix.lab.ab import Arm, Progress
    from templatefix.lab.figures import AbResult
    from templatefix.lab.live import Live
    from templatefix.lab.scenario import Scenario
    from templatefix.servers.embedded import EmbeddedEngine
    from templatefix.servers.standin import Attention
    from templatefix.servers.targets import Target
    from templatefix.servers.tokenizer import Donor

ALL = "all"
_FORCED_TOKENS = 64  # a bound reply takes what it needs


@dataclass(frozen=True, slots=True)
class Experiment:
    """What to measure."""

    scenarios: tuple[Scenario, ...] = ()
    loops: tuple[Loop, ...] = ()
    repeats: int = 1
    attention: Attention | None = None  # None: as the model has it
    checkpoints: int | None = None  # None: as many as the engine likes
    weights: Path | None = None
    live: Live | None = None  # None: scripted

    @property
    def own_engine(self) -> str:
        """The option that asks for an engine started for this run; empty where none does."""
        asked = {"--attention": self.attention, "--checkpoints": self.checkpoints, "--weights": self.weights}
        return next((name for name, value in asked.items() if value is not None), "")

    @property
    def thinks(self) -> bool:
        """Whether some request asks for thinking."""
        return any(request.think for loop in self.loops for request in loop.requests)

    def without_thinking(self) -> Experiment:
        """The same with requests that leave thinking to the server."""
        loops = [
            replace(loop, requests=tuple([replace(one, think=None, think_level="") for one in loop.requests]))
            for loop in self.loops
        ]
        return replace(self, scenarios=tuple([replace(one, think=None) for one in self.scenarios]), loops=tuple(loops))


def experiment(
    names: Sequence[str] | None = None,
    size: int | None = None,
    repeats: int = 1,
    attention: str | None = None,
    checkpoints: int | None = None,
    weights: str | None = None,
    live: bool = False,
    force: bool = False,
    temperature: float = 0.7,
    seed: int = 1,
) -> Experiment:
    """Read what the options say; raises CliError."""
    from templatefix.lab.scenario_file import SEED_LOOP, shipped_names

    if attention is not None:
        known("--attention", attention, ("full", "swa", "recurrent"))
        if weights is not None:
            raise CliError("--attention is for the stand-in model; the weights of a file have a memory of their own")
    wanted = [one for name in names or [SEED_LOOP] for one in (shipped_names() if name == ALL else [name])]
    scenarios = tuple([_scenario(name, size) for name in dict.fromkeys(wanted)])
    return Experiment(
        scenarios,
        tuple([scenario.loop() for scenario in scenarios]),
        repeats,
        cast("Attention | None", attention),
        checkpoints,
        _file(weights),
        _live(force, temperature, seed) if live or force else None,
    )


def replayed(wish: Experiment, files: Sequence[str]) -> Experiment:
    """The same with the conversations of recorded sessions; raises CliError."""
    from templatefix.trace.replay import loops_from
    from templatefix.trace.sources import TraceError

    try:
        return replace(wish, scenarios=(), loops=loops_from([Path(file).expanduser() for file in files]))
    except TraceError as error:
        raise CliError(str(error)) from error


def _scenario(name: str, size: int | None) -> Scenario:
    from templatefix.lab.document import DocumentError
    from templatefix.lab.scenario_file import load

    try:
        found = load(name)
    except DocumentError as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{name} cannot be read: {error.strerror or error}") from error
    return found if size is None else found.sized(size)


def _file(weights: str | None) -> Path | None:
    if weights is None:
        return None
    path = Path(weights).expanduser()
    if not path.is_file():
        raise CliError(f"there is no file {weights}")
    return path


def _live(force: bool, temperature: float, seed: int) -> Live:
    from templatefix.lab.live import Live
    from templatefix.servers.timings import Sampling

    tokens = _FORCED_TOKENS if force else Sampling().max_tokens
    return Live(Sampling(seed=seed, temperature=temperature, max_tokens=tokens), force)


def on_embedded(arms: Sequence[Arm], wish: Experiment, target: Target | None = None) -> AbResult:
    """Both arms on the embedded engine, with the tokenizer and the kind of memory of a model on the server.

    Raises CliError where it cannot run.
    """
    if wish.live is not None and not wish.live.force and wish.weights is None:
        raise CliError("--live needs --weights FILE, a GGUF file with a model that can answer, or --force-calls")
    show = progress_line()
    with plain_errors():
        try:
            engine = _engine(arms, wish, target)
        except OSError as error:
            raise CliError(f"the stand-in model cannot be kept: {error}") from error
        result = _result(engine, arms, wish, lambda at: show(f"{at.done}/{at.total} {at.label}"))
    show("")
    return result


def _result(
    engine: EmbeddedEngine, arms: Sequence[Arm], wish: Experiment, progress: Callable[[Progress], None]
) -> AbResult:
    if wish.live is None:
        from templatefix.lab.ab import run_ab

        return run_ab(engine, arms, wish.loops, progress, wish.repeats)
    from templatefix.lab.embedded import embedded_chats, room_for
    from templatefix.lab.live import run_live

    chats = embedded_chats(engine, room_for(arms, wish.loops, wish.live.sampling.max_tokens))
    return run_live(engine, chats, arms, wish.scenarios, wish.live, wish.repeats, progress)


def _engine(arms: Sequence[Arm], wish: Experiment, target: Target | None) -> EmbeddedEngine:
    from templatefix.lab.embedded import embedded_engine, weights_engine

    if wish.weights is not None:
        return weights_engine(wish.weights, wish.checkpoints)
    donor, attention = model_of(target)
    kind = wish.attention or attention or "full"
    return embedded_engine(arms, wish.loops, donor, attention=kind, checkpoints=wish.checkpoints)


def model_of(target: Target | None) -> tuple[Donor | None, Attention | None]:
    """The tokenizer of a target and its kind of memory, where a server or a GGUF file tells them; else None."""
    if target is None:
        return None, None
    if target.shown is None:
        from templatefix.servers.tokenizer import from_gguf

        donor = from_gguf(target.path) if target.kind == "gguf" and target.path is not None else None
        return donor, target.jinja.memory if target.jinja is not None else None
    from templatefix.servers.errors import ServerError
    from templatefix.servers.memory import attention_of
    from templatefix.servers.ollama import OllamaClient
    from templatefix.servers.tokenizer import from_show

    try:
        info = OllamaClient().show(target.name, verbose=True).model_info
    except ServerError as error:
        raise CliError(str(error)) from error
    donor = from_show({"model_info": info}, target.name) if info.get("tokenizer.ggml.tokens") else None
    return donor, attention_of(info)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in one sentence what goes wrong on an engine or with a model's file."""
    from templatefix.chat.rendering import RenderError
    from templatefix.servers.embedded import EngineError
    from templatefix.servers.errors import ServerError
    from templatefix.servers.gguf import GgufError
    from templatefix.servers.tags import TagExists, TagRefused
    from templatefix.servers.tokenizer import TokenizerError

    try:
        yield
    except (EngineError, TokenizerError, GgufError) as error:
        sentence = str(error).rstrip(".")
        if sentence.startswith(("The ", "No ")):  # and not with a file's name
            sentence = sentence[:1].lower() + sentence[1:]
        raise CliError(sentence) from error
    except (TagExists, TagRefused, ServerError, RenderError) as error:
        raise CliError(str(error)) from error
