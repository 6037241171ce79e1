"""Extraction of training data from responses of several servers, whole and streamed."""

from typing import Any

import msgspec
import pytest

from rolldeck.captures import Drawn
from rollouts.fleet.capture.upstream import Reading, Refusal, completion

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
OURS: dict[str, Any] = {
    "index": 0,
    "finish_reason": "stop",
    "message": {"role": "assistant", "content": "ab"},
    "prompt_token_ids": [1, 2],
    "token_ids": [3, 4],
    "token_logprobs": [-0.5, -0.25],
    "policy_versions": [[1, 6, 1], [1, 7, 1]],
}


def reading_of(*responses: dict[str, Any], is_chat: bool = True) -> Reading:
    messages = CHAT["messages"] if is_chat else []
    reading = Reading(kind="chat" if is_chat else "completion", model="m", messages=messages)
    for response in responses:
        reading.add(completion(msgspec.json.encode(response)))
    return reading


def read(*responses: dict[str, Any], is_chat: bool = True) -> Any:
    return reading_of(*responses, is_chat=is_chat).call("k")


def test_our_server_has_all_fields() -> None:
    call = read({"choices": [OURS]})

    assert call.gap == ""
    assert call.prompt_tokens == [1, 2]
    assert call.messages == CHAT["messages"]
    (answer,) = call.answers
    assert (answer.tokens, answer.logprobs) == ([3, 4], [-0.5, -0.25])
    assert answer.versions == [Drawn(epoch=1, step=6, tokens=1), Drawn(epoch=1, step=7, tokens=1)]
    assert answer.message == {"role": "assistant", "content": "ab"}


def test_a_stream_has_the_same_content() -> None:
    first = {
        "index": 0,
        "delta": {"role": "assistant", "content": "a"},
        "finish_reason": None,
        "prompt_token_ids": [1, 2],
        "token_ids": [3],
        "token_logprobs": [-0.5],
        "policy_versions": [[1, 6, 1]],
    }
    second = {
        "index": 0,
        "delta": {"content": "b"},
        "finish_reason": "stop",
        "token_ids": [4],
        "token_logprobs": [-0.25],
        "policy_versions": [[1, 6, 1], [1, 7, 1]],
    }

    assert read({"choices": [first]}, {"choices": [second]}, {"choices": []}) == read(
        {"choices": [OURS]}
    )


def test_vllm_has_openai_logprobs_and_no_versions() -> None:
    chat = {
        "index": 0,
        "finish_reason": "length",
        "message": {"role": "assistant", "content": "a"},
        "token_ids": [3],
        "logprobs": {"content": [{"token": "a", "logprob": -0.5}]},
    }
    completion = {
        "index": 0,
        "finish_reason": "length",
        "text": "a",
        "token_ids": [3],
        "logprobs": {"tokens": ["a"], "token_logprobs": [-0.5]},
    }

    answer = read({"prompt_token_ids": [1], "choices": [chat]}).answers[0]
    written = read({"prompt_token_ids": [1], "choices": [completion]}, is_chat=False).answers[0]

    assert (answer.tokens, answer.logprobs, answer.versions) == ([3], [-0.5], [])
    assert (written.tokens, written.logprobs, written.text) == ([3], [-0.5], "a")


def test_tool_calls_of_a_stream_are_joined_by_their_index() -> None:
    def chunk(**fields: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, **fields}]}

    def part(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
        return {"index": index, "function": {"arguments": arguments, **fields.pop("name", {})}} | (
            fields
        )

    first = part(0, "", id="call_a", name={"name": "add"})
    second = part(1, '{"x": 2}', id="call_b", name={"name": "sub"})
    reading = reading_of(
        chunk(prompt_token_ids=[1], delta={"role": "assistant", "reasoning": "why "}),
        chunk(delta={"reasoning_content": "not", "tool_calls": [first]}),
        chunk(delta={"tool_calls": [part(0, '{"x"')]}, token_ids=[3], token_logprobs=[-0.5]),
        chunk(delta={"tool_calls": [part(0, ": 1}")]}),
        chunk(delta={"tool_calls": [second]}, finish_reason="tool_calls"),
    )

    assert reading.call("k").answers[0].message == {
        "role": "assistant",
        "content": None,
        "reasoning": "why not",
        "tool_calls": [
            {
                "id": "call_a",
                "type": "function",
                "function": {"name": "add", "arguments": '{"x": 1}'},
            },
            {
                "id": "call_b",
                "type": "function",
                "function": {"name": "sub", "arguments": '{"x": 2}'},
            },
        ],
    }


@pytest.mark.parametrize(
    ("choice", "lack"),
    [
        (None, "returned no choice"),
        ({"prompt_token_ids": None}, "returned no token ids of the prompt"),
        ({"token_ids": None}, "returned no token ids of the answer"),
        ({"token_logprobs": None}, "returned 0 logprobs for 2 tokens"),
        ({"token_logprobs": [-0.5]}, "returned 1 logprobs for 2 tokens"),
        ({"finish_reason": None}, "returned an incomplete answer"),
    ],
)
def test_a_response_without_data_for_training_is_an_error(
    choice: dict[str, Any] | None, lack: str
) -> None:
    response = {"choices": [] if choice is None else [OURS | choice]}

    with pytest.raises(Refusal, match=lack) as refused:
        read(response)

    assert refused.value.status == 502


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ({"choices": [OURS], "model": "other"}, "answered with model 'other', not with 'm'"),
        ({"choices": 3}, "Expected `array`, got `int` - at `\\$.choices`"),
        ({"choices": [OURS | {"token_ids": ["a"]}]}, "got `str` - at `\\$.choices"),
        ({"choices": [OURS | {"token_ids": [-1]}]}, ">= 0 - at `\\$.choices"),
        ([], "Expected `object`, got `array`"),
        ({"error": {"message": "out of memory"}}, "failed: out of memory"),
        ({"error": "out of memory"}, "failed: out of memory"),
    ],
)
def test_a_response_of_another_type_or_model_is_an_error(response: Any, problem: str) -> None:
    with pytest.raises(Refusal, match=problem) as refused:
        read(response)

    assert refused.value.status == 502


def test_an_undelivered_answer_is_a_gap() -> None:
    gap = reading_of({"choices": [OURS]}).gap("k", "the agent disconnected")

    assert (gap.gap, gap.answers, gap.prompt_tokens) == ("the agent disconnected", [], [])
    assert gap.messages == CHAT["messages"]
