"""The seed loop."""

from __future__ import annotations

import json

from templatefix.lab.scenario import seed_loop


def test_two_turns_with_one_call_each() -> None:
    loop = seed_loop()
    roles = [[message["role"] for message in request.messages] for request in loop.requests]
    assert roles == [
        ["system", "user"],
        ["system", "user", "assistant", "tool"],
        ["system", "user", "assistant", "tool", "assistant", "user"],
        ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool"],
    ]
    assert [message["content"] for message in loop.requests[-1].messages if message["role"] == "tool"] == ["4", "11"]
    for earlier, later in zip(loop.requests, loop.requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert later.tools == earlier.tools


def test_nineteen_tools_with_names_of_their_own() -> None:
    names = [tool["function"]["name"] for tool in seed_loop().requests[0].tools]
    assert len(set(names)) == 19
    called = seed_loop().requests[1].messages[2]["tool_calls"][0]["function"]["name"]
    assert called == names[0]


def test_the_same_every_time() -> None:
    assert json.dumps(seed_loop().requests[-1].messages) == json.dumps(seed_loop().requests[-1].messages)
    assert seed_loop().requests[0].tools == seed_loop().requests[0].tools


def test_sizes_can_be_set() -> None:
    small, large = seed_loop(3, 20, 50), seed_loop(3, 40, 100)
    assert len(small.requests[0].tools) == len(large.requests[0].tools) == 3
    assert 2.0 > len(json.dumps(large.requests[0].messages)) / len(json.dumps(small.requests[0].messages)) > 1.6
    assert seed_loop(0, 0, 0).requests[0].tools == ()
