"""What real servers logged: the cause that the doctor names first, its figure, and the setting."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import shared as material

from templatefix.analysis.analyse import analyse
from templatefix.chat.go import GoChatTemplate
from templatefix.trace.diagnosis import Diagnosis, diagnose
from templatefix.trace.patient import ModelSeen, ServerSeen
from templatefix.trace.templates import KnownTemplate


def seen(folder: Path, name: str, requests: bool = True) -> Diagnosis:
    return diagnose(None, [folder / f"{name}.log"], [folder / f"{name}.json"] if requests else [])


@pytest.fixture
def llama(shared: Path) -> Path:
    return shared / "recordings" / "llama-server"


@pytest.mark.parametrize(
    ("name", "kind", "tokens", "setting"),
    [
        ("llama-one-slot-job", "slots", 2385 - 33, "--cache-ram 8192"),
        ("llama-timestamp-client", "client", 2331 - 738 + 75, "keep the time out"),
        ("gemma3-moving-swa-noram", "memory", 902 + 1034, "--swa-full; or --ctx-checkpoints 32"),
        ("gemma3-moving-swa", "memory", 902 + 39, "--swa-full"),
        ("mamba-moving", "memory", 901 + 38, "--ctx-checkpoints"),
    ],
)
@pytest.mark.parametrize("requests", [True, False])
def test_the_right_cause_comes_first(
    llama: Path, name: str, kind: str, tokens: int, setting: str, requests: bool
) -> None:
    found = seen(llama, name, requests)
    first = found.costs[0]
    if kind == "client" and not requests:
        kind = "unknown"  # a log alone cannot tell a client's change from a template's
        setting = "trace explain"
    assert (found.ill, first.kind) == (True, kind)
    assert first.tokens == pytest.approx(tokens, abs=40)
    assert setting in first.setting
    assert found.kind == "llama-server"


@pytest.mark.parametrize(
    "name",
    ["llama-one-slot-job-ram", "llama-two-slots-job", "gemma3-fixed-swa", "mamba-fixed", "gemma3-moving-swafull"],
)
@pytest.mark.parametrize("requests", [True, False])
def test_where_nothing_is_wrong_nothing_is_named(llama: Path, name: str, requests: bool) -> None:
    found = seen(llama, name, requests)
    costs = [
        cost for cost in found.costs if requests or "moving" not in name
    ]  # a log alone shows that sizes go up and down
    assert (found.ill, costs) == (False, [])
    assert all(cost.kind == "unknown" and cost.share is None for cost in found.costs)


def test_settings_are_read_from_the_log(llama: Path) -> None:
    ram, full = seen(llama, "llama-one-slot-job-ram").setup, seen(llama, "gemma3-moving-swafull").setup
    assert (ram.slots, ram.context, ram.prompt_cache, ram.saved, ram.restored) == (1, 16384, True, 2, 1)
    assert (full.window, full.full_window, full.checkpoints) == (512, True, 32)
    assert seen(llama, "mamba-fixed").setup.recurrent


def test_what_a_prompt_is_made_of_and_how_long_it_takes(llama: Path) -> None:
    found = seen(llama, "llama-one-slot-job")
    assert found.makeup is not None
    assert sum(found.makeup.parts.values()) == pytest.approx(2475, abs=3)
    assert (found.makeup.goes_on, found.makeup.changed) == (2, {"system": 0, "tools": 0, "history": 0})
    clocked = seen(llama, "llama-timestamp-client").makeup
    assert clocked is not None
    assert (clocked.goes_on, clocked.changed) == (2, {"system": 1, "tools": 0, "history": 0})
    assert found.figures.tokens_per_second == pytest.approx(
        (2312 + 75 + 1322 + 2442) * 1000 / (28.35 + 4.56 + 10.32 + 43.15), rel=0.001
    )


def test_a_history_that_ollama_cut(shared: Path) -> None:
    found = seen(shared / "recordings" / "ollama", "truncated", requests=False)
    (cost,) = found.costs
    assert (cost.kind, cost.share, found.ill, found.kind) == ("truncated", None, False, "ollama")
    assert cost.evidence[-1].endswith("truncated=13")
    assert "num_ctx" in cost.setting


def test_the_tools_that_come_and_go_in_a_log_alone(shared: Path) -> None:
    """It cannot say whose fault that is; a server whose template is unstable can."""
    log = shared / "recordings" / "ollama" / "seed-loop.log"
    (cost,) = (found := diagnose(None, [log])).costs
    assert (cost.kind, cost.share, found.ill) == ("unknown", None, False)
    assert cost.tokens == pytest.approx(8092 - 3551, abs=2)
    template = GoChatTemplate(material.corpus()["hf-llama3.1-8b"]["template"])
    known = KnownTemplate("llama3.1:8b", template, template.as_served)
    model = ModelSeen("llama3.1:8b", True, 16384, known, analyse(template))
    found = diagnose(ServerSeen("ollama", "http://127.0.0.1:1", "0.33.0", (model,)), [log])
    (cost,) = found.costs
    assert (cost.kind, found.ill) == ("template", True)
    assert "most likely since the template of llama3.1:8b is unstable" in cost.message
