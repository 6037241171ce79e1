"""Capture of agents that use Anthropic's Messages API; tests/partners has Anthropic's client."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from buffer.capture.models import CaptureSession
from tests.contract.capture_setup import (
    KEY,
    Stand,
    group,
    on_a_port,
    small_engine,
    stand_with,
    trained,
)
from tests.stand_ins.scripted_chat import ScriptedChat, encoded, text_answer, tool_answer

pytestmark = pytest.mark.django_db(transaction=True)

TOOL = {
    "name": "add",
    "input_schema": {"type": "object"},
    "description": "Add numbers",
    "strict": True,
}
REQUEST: dict[str, Any] = {
    "model": "policy",
    "max_tokens": 50,
    "messages": [{"role": "user", "content": "1+2"}],
}


@pytest.fixture
def scripted() -> ScriptedChat:
    return ScriptedChat(text_answer("fine"))


@pytest.fixture
def stand(scripted: ScriptedChat) -> Iterator[Stand]:
    with on_a_port(scripted.app) as url, stand_with(f"{url}/v1") as made:
        yield made


def post(stand: Stand, session: str = "one", key: str = KEY, **fields: Any) -> httpx.Response:
    return httpx.post(
        f"{stand.proxy}/capture/{session}/v1/messages",
        json=REQUEST | fields,
        headers={"x-api-key": key, "anthropic-version": "2023-06-01"},
        timeout=60,
    )


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the events of a stream; each names its type twice."""
    events = []
    for part in response.text.strip().split("\n\n"):
        name, data = part.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def count_tokens(stand: Stand, key: str = KEY, **fields: Any) -> httpx.Response:
    body = {name: value for name, value in REQUEST.items() if name != "max_tokens"} | fields
    return httpx.post(
        f"{stand.proxy}/capture/one/v1/messages/count_tokens",
        json=body,
        headers={"x-api-key": key, "anthropic-version": "2023-06-01"},
        timeout=60,
    )


def test_tokens_are_counted_with_the_tokenizer_of_the_server() -> None:
    turns = [
        *({"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}),
        {"role": "user", "content": [{"type": "text", "text": "three"}]},
    ]
    with small_engine() as url, stand_with(url) as stand:
        counted = count_tokens(stand, messages=turns)
        stored = CaptureSession.objects.exists()
        answered = post(stand, messages=turns, max_tokens=2)

    assert counted.json() == {"input_tokens": answered.json()["usage"]["input_tokens"]}
    assert not stored


def test_an_invalid_count_is_refused_in_the_format_of_messages(stand: Stand) -> None:
    for fields, text in (({"messages": []}, "messages"), ({"mcp_servers": [{}]}, "mcp_servers")):
        refused = count_tokens(stand, **fields)
        assert (refused.status_code, refused.json()["type"]) == (400, "error")
        assert refused.json()["error"]["message"].startswith(f"{text}: ")
    assert count_tokens(stand, key="wrong").status_code == 401
    # The stand-in has no /tokenize.
    assert count_tokens(stand).json()["error"]["type"] == "not_found_error"


def test_a_conversation_with_tools_is_one_sequence(scripted: ScriptedChat, stand: Stand) -> None:
    called = tool_answer(("add", '{"x": 1}'), text="let me add")
    scripted.answers = [{**called, "reasoning": "why"}, text_answer("3")]
    system = [{"type": "text", "text": "be short", "cache_control": {"type": "ephemeral"}}]

    first = post(stand, system=system, tools=[TOOL], tool_choice={"type": "any"}).json()
    result = {"type": "tool_result", "tool_use_id": first["content"][2]["id"], "content": "3"}
    turns = [
        *REQUEST["messages"],
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result]},
    ]
    second = post(stand, system=system, tools=[TOOL], messages=turns).json()

    assert first["content"] == [
        {"type": "thinking", "thinking": "why", "signature": ""},
        {"type": "text", "text": "let me add"},
        {"type": "tool_use", "id": "call_0", "name": "add", "input": {"x": 1}},
    ]
    assert (first["stop_reason"], second["stop_reason"]) == ("tool_use", "end_turn")
    assert second["content"] == [{"type": "text", "text": "3"}]
    assert scripted.requests[0]["tool_choice"] == "required"
    function = {"name": "add", "parameters": {"type": "object"}, "description": "Add numbers"}
    assert scripted.requests[0]["tools"] == [
        {"type": "function", "function": {**function, "strict": True}}
    ]
    messages = scripted.requests[1]["messages"]
    assert messages[0] == {"role": "system", "content": "be short"}
    assert messages[2] == {**called, "reasoning": "why"}
    assert messages[3] == {"role": "tool", "tool_call_id": "call_0", "content": "3"}
    receipt = stand.score(one=1.0)
    assert (receipt.sequences, receipt.gaps) == (1, {})
    assert trained(group(), 0) == encoded('whylet me addadd{"x": 1}\n3\n')
    assert second["usage"] == {
        "input_tokens": len(group()["tokens"][0]) - 2,
        "output_tokens": 2,
    }


def test_a_stream_has_the_events_of_anthropic(scripted: ScriptedChat, stand: Stand) -> None:
    scripted.answers = [
        {**tool_answer(("add", '{"x": 1}'), ("add", "{}"), text="ok"), "reasoning": "why"}
    ]

    response = post(stand, stream=True, tools=[TOOL])

    events = events_of(response)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert [one["type"] for one in events if one["type"] != "content_block_delta"] == [
        "message_start",
        *(["content_block_start", "content_block_stop"] * 4),
        "message_delta",
        "message_stop",
    ]
    start = events[0]["message"]
    assert (start["content"], start["usage"]["output_tokens"]) == ([], 0)
    assert start["usage"]["input_tokens"] == len("user: 1+2\nassistant: ")
    assert [one["index"] for one in events if one["type"] == "content_block_stop"] == [0, 1, 2, 3]
    pieces = [one["delta"] for one in events if one["type"] == "content_block_delta"]
    assert {piece["type"] for piece in pieces} == {
        *("thinking_delta", "text_delta", "input_json_delta")
    }
    assert "".join(piece.get("text", "") for piece in pieces) == "ok"
    assert "".join(piece.get("partial_json", "") for piece in pieces) == '{"x": 1}{}'
    assert events[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert events[-2]["usage"]["output_tokens"] == len('whyokadd{"x": 1}add{}\n')
    assert CaptureSession.objects.get(name="one").calls == 1


@pytest.mark.parametrize(
    ("finish", "stop_reason"), [("length", "max_tokens"), ("content_filter", "refusal")]
)
def test_the_end_of_an_answer_is_translated(
    scripted: ScriptedChat, stand: Stand, finish: str, stop_reason: str
) -> None:
    scripted.finish = finish

    assert post(stand).json()["stop_reason"] == stop_reason


def test_a_stop_sequence_is_named(scripted: ScriptedChat, stand: Stand) -> None:
    def stopped(response: dict[str, Any]) -> dict[str, Any]:
        response["choices"][0]["stop_reason"] = "END"
        return response

    scripted.change = stopped

    answer = post(stand, stop_sequences=["END"]).json()

    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "END")
    assert scripted.requests[0]["stop"] == ["END"]


def test_invalid_arguments_of_a_tool_reach_the_agent(scripted: ScriptedChat, stand: Stand) -> None:
    scripted.answers = [tool_answer(("add", '{"x":'))]

    (block,) = post(stand, tools=[TOOL]).json()["content"]

    assert block["input"] == {"invalid_json": '{"x":'}
    assert stand.score(one=0.0).gaps == {}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"tools": [{"type": "web_search_20250305", "name": "w", "input_schema": {}}]},
            "tools[0].type",
        ),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
    ],
)
def test_an_unsupported_field_is_named(stand: Stand, fields: dict[str, Any], param: str) -> None:
    refused = post(stand, **fields)

    error = refused.json()["error"]
    assert (refused.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith(f"{param}: ")
    assert not CaptureSession.objects.exists()


def test_refusals_have_the_format_of_anthropic(stand: Stand) -> None:
    key, name = post(stand, key="wrong"), post(stand, session="a%20b")

    assert (key.status_code, key.json()) == (
        401,
        {
            "type": "error",
            "error": {"type": "authentication_error", "message": "the API key is invalid"},
        },
    )
    assert (name.status_code, name.json()["error"]["type"]) == (404, "not_found_error")
