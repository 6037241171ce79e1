"""Capture of agents that use OpenAI's Responses API, through OpenAI's own client."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from buffer.capture.models import CaptureSession
from tests.contract.capture_setup import (
    TOKENIZER,
    Stand,
    group,
    on_a_port,
    small_engine,
    stand_with,
    trained,
)
from tests.stand_ins.scripted_chat import ScriptedChat, encoded, text_answer, tool_answer

pytestmark = pytest.mark.django_db(transaction=True)

TOOLS: list[Any] = [
    {
        "type": "function",
        "name": "add",
        "description": "Add numbers",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "strict": False,
    }
]
CALLS = (("add", '{"x": 1}'), ("add", '{"x": 2}'))


@pytest.fixture
def scripted() -> ScriptedChat:
    return ScriptedChat(text_answer("fine"))


@pytest.fixture
def stand(scripted: ScriptedChat) -> Iterator[Stand]:
    with on_a_port(scripted.app) as url, stand_with(f"{url}/v1") as made:
        yield made


def test_a_response_of_the_engine_is_captured_with_the_sampled_tokens() -> None:
    with small_engine() as upstream, stand_with(upstream) as stand:
        response = stand.agent("one").responses.create(
            model="policy",
            input="hello",
            max_output_tokens=6,
            extra_body={"ignore_eos": True, "seed": 3},
        )
        receipt = stand.score(one=1.0)

    assert response.usage is not None
    assert (response.status, response.usage.output_tokens) == ("incomplete", 6)
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert (receipt.tokens, receipt.gaps) == (6, {})
    sampled = [token for token in trained(group(), 0) if token != TOKENIZER.end]
    assert TOKENIZER.decode(sampled) == response.output_text
    assert response.usage.input_tokens == len(group()["tokens"][0]) - 6


def test_a_conversation_with_tools_is_one_sequence(scripted: ScriptedChat, stand: Stand) -> None:
    scripted.answers = [tool_answer(*CALLS, text="let me add"), text_answer("3")]
    agent = stand.agent("one")
    request: dict[str, Any] = {"model": "policy", "instructions": "be short", "tools": TOOLS}
    context: list[Any] = [
        {"role": "developer", "content": "use tools"},
        {"role": "user", "content": [{"type": "input_text", "text": "1+2"}]},
    ]

    first = agent.responses.create(input=context, **request)
    results = [
        {"type": "function_call_output", "call_id": item.call_id, "output": item.arguments}
        for item in first.output
        if item.type == "function_call"
    ]
    second = agent.responses.create(input=[*context, *first.output, *results], **request)

    assert [item.type for item in first.output] == ["message", "function_call", "function_call"]
    assert second.output_text == "3"
    messages = scripted.requests[1]["messages"]
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "tool", "tool")
    ]
    assert messages[0]["content"] == "be short\n\nuse tools"
    assert messages[2] == tool_answer(*CALLS, text="let me add")
    assert scripted.requests[0]["tools"][0]["function"]["name"] == "add"
    receipt = stand.score(one=1.0)
    assert (receipt.sequences, receipt.gaps) == (1, {})
    row = group()
    sampled = "let me add" + "".join(name + arguments for name, arguments in CALLS) + "\n3\n"
    assert trained(row, 0) == encoded(sampled)
    assert row["messages"][0][-1] == {"role": "assistant", "content": "3"}


def test_a_stream_has_the_events_of_openai(scripted: ScriptedChat, stand: Stand) -> None:
    scripted.answers = [{**tool_answer(CALLS[0], text="ok"), "reasoning": "why not"}]
    request: dict[str, Any] = {"model": "policy", "input": "1+2", "tools": TOOLS}

    events = list(stand.agent("one").responses.create(stream=True, **request))
    whole = stand.agent("two").responses.create(**request)

    kinds = [event.type for event in events]
    assert [kind for place, kind in enumerate(kinds) if kind not in kinds[:place]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    last = events[-1]
    assert last.type == "response.completed"
    assert [comparable(item) for item in last.response.output] == [
        comparable(item) for item in whole.output
    ]
    assert last.response.usage == whole.usage
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "ok"


def comparable(item: Any) -> Any:
    """Return an item without its id, and a reasoning without the spaces a chunk lacks."""
    shown = item.model_dump(exclude={"id"})
    if item.type == "reasoning":
        shown["content"][0]["text"] = shown["content"][0]["text"].replace(" ", "")
    return shown


def test_openais_stream_helper_collects_the_response(stand: Stand) -> None:
    with stand.agent("one").responses.stream(model="policy", input="how are you") as stream:
        for event in stream:
            if event.type == "response.output_text.done":
                # The end of a text is not the end of the answer: no tool was called.
                assert event.text == "fine"
        response = stream.get_final_response()

    assert (response.status, response.output_text) == ("completed", "fine")
    assert CaptureSession.objects.get(name="one").calls == 1


def test_a_schema_for_the_answer_is_passed_on(scripted: ScriptedChat, stand: Stand) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    scripted.answers = [text_answer('{"x": 1}')]

    stand.agent("one").responses.create(
        model="policy",
        input="x",
        text={"format": {"type": "json_schema", "name": "point", "schema": schema, "strict": True}},
        tools=TOOLS,
        tool_choice={"type": "function", "name": "add"},
        parallel_tool_calls=False,
        temperature=0.5,
        max_output_tokens=7,
        extra_body={"seed": 1},
    )

    (request,) = scripted.requests
    assert request["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "point", "schema": schema, "strict": True},
    }
    assert request["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    assert (request["parallel_tool_calls"], request["temperature"]) == (False, 0.5)
    assert (request["max_completion_tokens"], request["seed"]) == (7, 1)


def test_an_answer_with_a_nul_character_is_stored(scripted: ScriptedChat, stand: Stand) -> None:
    scripted.answers = [text_answer("a\x00b")]

    response = stand.agent("one").responses.create(model="policy", input="x\x00y")

    assert response.output_text == "a\x00b"
    stand.score(one=1.0)
    assert trained(group(), 0) == encoded("a\x00b\n")
    texts = [message["content"] for message in group()["messages"][0]]
    assert texts == ["x\ufffdy", "a\ufffdb"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": [{"type": "item_reference", "id": "1"}]}, "input[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0].type",
        ),
        ({"input": 3}, "input"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
def test_an_unsupported_field_is_named(stand: Stand, fields: dict[str, Any], param: str) -> None:
    request: dict[str, Any] = {"model": "policy", "input": "hi"} | fields

    with pytest.raises(openai.BadRequestError, match=param.split("[", maxsplit=1)[0]) as refused:
        stand.agent("one").responses.create(**request)

    assert refused.value.param == param
    assert not CaptureSession.objects.exists()
