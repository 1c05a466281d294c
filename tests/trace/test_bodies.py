"""Requests and answers of each API, brought into one shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from templatefix.trace.answers import objects_in
from templatefix.trace.bodies import exchange_of
from templatefix.trace.exchange import Exchange

FUNCTION = {"name": "look_up", "description": "Finds a word", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
CALL = {"function": {"name": "look_up", "arguments": {"word": "owl"}}, "id": "c1"}
SHAPE = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is an owl?"},
    {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
    {"role": "tool", "content": "a bird", "tool_call_id": "c1"},
]

OPENAI: dict[str, Any] = {
    "model": "m",
    "tools": [TOOL],
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "an owl?"}]},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "owl"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a bird"},
    ],
}
ANTHROPIC: dict[str, Any] = {
    "model": "m",
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "look_up", "description": "Finds a word", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "What is an owl?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"word": "owl"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a bird"}]}],
        },
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "instructions": "Be brief.",
    "tools": [{"type": "function", **FUNCTION}],
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is an owl?"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"word": "owl"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a bird"},
    ],
}


def read(path: str, body: dict[str, Any], answers: list[Any] | None = None) -> Exchange:
    exchange = exchange_of(path, body, answers or [], "x:1")
    assert exchange is not None
    return exchange


@pytest.mark.parametrize("path", ["as it is", "guessed"])
@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("/api/chat", {"model": "m", "messages": SHAPE, "tools": [TOOL]}),
        ("/v1/chat/completions", OPENAI),
        ("/v1/messages", ANTHROPIC),
        ("/v1/responses", RESPONSES),
    ],
)
def test_one_conversation_in_every_api(path: str, api: str, body: dict[str, Any]) -> None:
    exchange = read(api if path == "as it is" else "", body)
    assert exchange.request is not None
    assert list(exchange.request.messages) == SHAPE
    assert list(exchange.request.tools) == [TOOL]
    assert exchange.model == "m"


def test_generate_and_prompts_as_text() -> None:
    plain = read("/api/generate", {"model": "m", "system": "Be brief.", "prompt": "Owl?"}).request
    assert plain is not None
    assert [message["role"] for message in plain.messages] == ["system", "user"]
    assert read("/api/generate", {"model": "m", "prompt": "<x>", "raw": True}).prompt == "<x>"
    assert read("/completion", {"prompt": "<x>", "n_predict": 1}).prompt == "<x>"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/show", {"model": "m"}),
        ("/api/chat", {"model": "m", "messages": []}),
        ("/api/chat", {"model": "m", "messages": SHAPE, "_debug_render_only": True}),
        ("/api/generate", {"model": "m", "keep_alive": 0}),
        ("", {}),
    ],
)
def test_what_asks_for_no_text(path: str, body: dict[str, Any]) -> None:
    assert exchange_of(path, body, [], "x:1") is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"prompt_eval_count": 90, "prompt_eval_cached_count": 80}, (90, 80, "field")),
        ({"prompt_eval_count": 90}, (90, None, "field")),
        ({"timings": {"cache_n": 80, "prompt_n": 10}, "usage": {"prompt_tokens": 90}}, (90, 80, "engine")),
        ({"usage": {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 80}}}, (90, 80, "field")),
        ({"usage": {"prompt_tokens": 90}}, (90, None, "field")),
        # Anthropic counts what came from the cache apart.
        (
            {"usage": {"input_tokens": 10, "cache_read_input_tokens": 75, "cache_creation_input_tokens": 5}},
            (90, 75, "field"),
        ),
        # Ollama's responses claim a constant 0, which says nothing.
        ({"usage": {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 0}}}, (90, None, "field")),
        ({"done": True}, (None, None, "estimate")),
        ({"prompt_eval_count": True, "usage": []}, (None, None, "estimate")),
    ],
)
def test_figures_of_each_api(answer: dict[str, Any], expected: tuple[int | None, int | None, str]) -> None:
    exchange = read("/api/chat", {"model": "m", "messages": SHAPE}, [answer])
    assert (exchange.prompt_tokens, exchange.cached_tokens, exchange.figures) == expected


OLLAMA_STREAM = [
    {"message": {"role": "assistant", "content": "", "thinking": "Hm"}},
    {"message": {"role": "assistant", "content": "Let me"}},
    {"message": {"role": "assistant", "content": " see.", "tool_calls": [CALL]}},
    {"done": True, "prompt_eval_count": 9},
]
OPENAI_STREAM = [
    {"choices": [{"delta": {"role": "assistant", "reasoning_content": "Hm"}}]},
    {"choices": [{"delta": {"content": "Let me see."}}]},
    {
        "choices": [
            {"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "look_up", "arguments": '{"wo'}}]}}
        ]
    },
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": 'rd": "owl"}'}}]}}]},
    {"choices": [], "usage": {"prompt_tokens": 9}},
]
WHOLE_RESPONSE: dict[str, Any] = {
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"word": "owl"}'},
    ],
    "usage": {"input_tokens": 9},
}
RESPONSES_STREAM = [
    {"type": "response.created", "response": {"output": []}},
    {"type": "response.output_text.delta", "delta": "Let me see."},
    {"type": "response.output_text.done", "text": "Let me see."},
    {"type": "response.output_item.done", "item": WHOLE_RESPONSE["output"][1]},
    {"type": "response.completed", "response": WHOLE_RESPONSE},
]
ANTHROPIC_STREAM = [
    {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 9}}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Let me see."}},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "c1", "name": "look_up", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"word"'}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ': "owl"}'}},
]


@pytest.mark.parametrize(
    ("path", "answers"),
    [
        ("/api/chat", OLLAMA_STREAM),
        ("/v1/chat/completions", OPENAI_STREAM),
        ("/v1/messages", ANTHROPIC_STREAM),
        ("/v1/responses", RESPONSES_STREAM),
        ("/v1/responses", [WHOLE_RESPONSE]),
    ],
)
def test_a_reply_is_put_together_from_its_stream(path: str, answers: list[Any]) -> None:
    exchange = read(path, {"model": "m", "messages": SHAPE[:2], "input": SHAPE[:2]}, answers)
    assert exchange.reply == {
        "role": "assistant",
        "content": "Let me see.",
        "thinking": "Hm",
        "tool_calls": [{"function": {"name": "look_up", "arguments": {"word": "owl"}}}],
    }
    assert exchange.prompt_tokens == 9


def test_objects_of_answers() -> None:
    lines = [{"a": 1}, {"a": 2}]
    assert objects_in(json.dumps(lines[0]).encode()) == ([lines[0]], 0)
    assert objects_in("\n".join(map(json.dumps, lines)).encode()) == (lines, 0)
    events = "event: message\nid: 7\n: comment\n\n" + "".join(f"data: {json.dumps(line)}\n\n" for line in lines)
    assert objects_in((events + "data: [DONE]\n\n").encode()) == (lines, 0)
    assert objects_in(b'data: {"a": 1}\n\ndata: {"a": ') == ([{"a": 1}], 1)
    assert objects_in(b"") == ([], 0)
