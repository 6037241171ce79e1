"""Extraction of training data from responses of several servers, whole and streamed."""

from typing import Any

import pytest

from rolldeck.captures import Drawn
from rollouts.fleet.capture.reading import Reading

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


def read(*responses: dict[str, Any], is_chat: bool = True) -> Any:
    reading = Reading(CHAT, is_chat=is_chat)
    for response in responses:
        reading.add(response)
    return reading.call("k")


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


@pytest.mark.parametrize(
    ("choice", "gap"),
    [
        (None, "the server returned no choice"),
        ({"prompt_token_ids": None}, "the server returned no token ids of the prompt"),
        ({"token_ids": None}, "the server returned no token ids of the answer"),
        ({"token_logprobs": None}, "the server returned 0 logprobs for 2 tokens"),
        ({"finish_reason": None}, "the answer is incomplete"),
    ],
)
def test_a_missing_answer_is_a_gap(choice: dict[str, Any] | None, gap: str) -> None:
    response = {"choices": [] if choice is None else [OURS | choice]}

    call = read(response)

    assert (call.gap, call.answers, call.prompt_tokens) == (gap, [], [])


def test_an_undelivered_answer_is_a_gap() -> None:
    reading = Reading(CHAT, is_chat=True)
    reading.add({"choices": [OURS]})
    reading.mark_incomplete("the agent disconnected")

    assert reading.call("k").gap == "the agent disconnected"
