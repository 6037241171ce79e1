"""Error bodies of inference servers, as their releases send them."""

import json
from typing import Any

import pytest

from rollouts.fleet.engine.engine import PromptTooLong, TokenUnknown
from rollouts.fleet.inference.dialects import prompt_error

ROOM = "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
LONG = "This model's maximum context length is 512 tokens, your request has 600 input tokens."
V1_LONG = "The decoder prompt (length 600) is longer than the maximum model length of 512."
SGLANG_LONG = "The input (600 tokens) is longer than the model's context length (512 tokens)."


def openai(message: str, *, param: str | None = None, code: object = 400) -> dict[str, Any]:
    error = {"message": message, "type": "BadRequestError", "param": param, "code": code}
    return {"error": error}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (openai("Too long.", code="context_length_exceeded"), PromptTooLong),
        (openai("Unknown.", param="prompt", code="token_unknown"), TokenUnknown),
        (openai(LONG, param="input_tokens"), PromptTooLong),
        (openai(ROOM, param="max_tokens"), PromptTooLong),
        (openai(V1_LONG), PromptTooLong),
        (openai("Token id 999 is out of vocabulary"), TokenUnknown),
        ({"object": "error", **openai(SGLANG_LONG)["error"]}, PromptTooLong),
        ({"error": {"message": SGLANG_LONG}}, PromptTooLong),
        # A named code or parameter decides, whatever words the message contains.
        (openai("n must be 1 in this context", param="n"), None),
        (openai("no such vocabulary file", code="invalid_value"), None),
        (openai("top_p must be at most 1"), None),
    ],
)
def test_a_refusal_is_recognized(body: dict[str, Any], kind: type[Exception] | None) -> None:
    error = prompt_error(json.dumps(body))

    assert (None if error is None else type(error)) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("the prompt exceeds the context", PromptTooLong),
        ("[1]", type(None)),
        ('{"error": "the prompt exceeds the context"}', PromptTooLong),
        ("", type(None)),
    ],
)
def test_a_body_of_another_form_is_recognized_by_words(text: str, kind: type) -> None:
    assert type(prompt_error(text)) is kind
