"""Parts of messages, in the forms of APIs and in the markup of chat templates."""

import json
import time
from typing import Any

import pytest

from buffer.inspect.rules.message_parts import (
    MOST_PARTS,
    MOST_PICTURES,
    cut,
    other_fields,
    parts_of,
)

PNG = "data:image/png;base64,iVBORw0KGgo="
CALL = '{\n  "city": "Zürich"\n}'


def said(content: Any, **fields: Any) -> list[tuple[str, ...]]:
    """Return kind, name and text of each part of an assistant's message."""
    return seen({"role": "assistant", "content": content, **fields})


def seen(message: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(part.kind, part.name, part.text) for part in parts_of(message)]


HARMONY = (
    "<|channel|>analysis<|message|>why<|end|><|start|>assistant"
    '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Zürich"}'
    "<|call|><|start|>assistant<|channel|>final<|message|>so<|return|>"
)
WEATHER = {"name": "weather", "arguments": {"city": "Zürich"}}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", []),
        (None, []),
        ([], []),
        ([{"type": "text", "text": ""}], []),
        ("x", [("text", "", "x")]),
        ('""', [("text", "", '""')]),
        ({}, [("other", "content", "{}")]),
        (0, [("other", "content", "0")]),
        (False, [("other", "content", "false")]),
        ({"a": 1}, [("other", "content", '{"a":1}')]),
        (["a", {"type": "text", "text": "b"}], [("text", "", "a"), ("text", "", "b")]),
        ([None, 3], [("other", "", "null"), ("other", "", "3")]),
        ([{"type": "refusal", "refusal": "no"}], [("text", "refusal", "no")]),
        ([{"type": "audio", "id": 4}], [("other", "audio", '{"type":"audio","id":4}')]),
        ([{"type": "text", "text": 7}], [("other", "text", '{"type":"text","text":7}')]),
    ],
)
def test_a_content_of_any_form_is_shown(content: object, parts: list[tuple[str, ...]]) -> None:
    assert said(content) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>why</think>so", [("reasoning", "", "why"), ("text", "", "so")]),
        ("<thinking>why</thinking>\n\nso", [("reasoning", "", "why"), ("text", "", "so")]),
        ("why\n</think>\n\nso", [("reasoning", "", "why"), ("text", "", "so")]),
        ("<think>\n\n</think>\n\nso", [("text", "", "so")]),
        ("<think>cut at the limit", [("reasoning", "", "cut at the limit")]),
        (
            f"I look.\n<tool_call>\n{json.dumps(WEATHER)}\n</tool_call>",
            [("text", "", "I look."), ("tool_call", "weather", CALL)],
        ),
        (
            '<tool_call>{"name": "weather", "argum',
            [("tool_call", "", '{"name": "weather", "argum')],
        ),
        (
            "<tool_call><function=weather><parameter=city>\nZürich\n</parameter></function></tool_call>",
            [("tool_call", "weather", CALL)],
        ),
        ('<function=weather>{"city": "Zürich"}</function>', [("tool_call", "weather", CALL)]),
        (
            '<|python_tag|>{"name": "weather", "parameters": {"city": "Zürich"}}<|eom_id|>',
            [("tool_call", "weather", CALL)],
        ),
        (f"[TOOL_CALLS] [{json.dumps(WEATHER)}]</s>", [("tool_call", "weather", CALL)]),
        ('[TOOL_CALLS]weather[ARGS]{"city": "Zürich"}', [("tool_call", "weather", CALL)]),
        (
            HARMONY,
            [("reasoning", "", "why"), ("tool_call", "weather", CALL), ("text", "", "so")],
        ),
        ("a < b and <tool> is no tag", [("text", "", "a < b and <tool> is no tag")]),
        ("</think>so", [("text", "", "so")]),
    ],
)
def test_the_markup_of_chat_templates_is_read(text: str, parts: list[tuple[str, ...]]) -> None:
    assert said(text) == parts
    # A person may write the same text; it is no call and no reasoning.
    assert seen({"role": "user", "content": text}) == [("text", "", text)]


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (
            {
                "role": "assistant",
                "content": "",
                "reasoning_content": "why",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "weather", "arguments": '{"city":"Zürich"}'}}
                ],
            },
            [("reasoning", "", "why"), ("tool_call", "weather", CALL)],
        ),
        (
            {"role": "assistant", "content": None, "function_call": WEATHER},
            [("tool_call", "weather", CALL)],
        ),
        (
            {
                "role": "assistant",
                "content": "x",
                "tool_calls": [None, {"function": {"name": "f"}}],
            },
            [("text", "", "x"), ("tool_call", "f", "")],
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "why"},
                    {"type": "text", "text": "I look."},
                    {
                        "type": "tool_use",
                        "id": "c1",
                        "name": "weather",
                        "input": {"city": "Zürich"},
                    },
                ],
            },
            [("reasoning", "", "why"), ("text", "", "I look."), ("tool_call", "weather", CALL)],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "7 °C"},
            [("tool_result", "weather", "7 °C")],
        ),
        (
            {
                "role": "tool",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            [("tool_result", "", "a\nb")],
        ),
        ({"role": "tool", "content": {"t": 7}}, [("tool_result", "", '{"t":7}')]),
        (
            {"role": "user", "content": "<tool_response>\n7 °C\n</tool_response>"},
            [("tool_result", "", "7 °C")],
        ),
        (
            {
                "role": "user",
                "content": "<tool_response>a</tool_response>\n<tool_response>\nb\n</tool_response>",
            },
            [("tool_result", "", "a"), ("tool_result", "", "b")],
        ),
        (
            {"role": "tool", "content": " <tool_response>\ncut at the limit"},
            [("tool_result", "", "cut at the limit")],
        ),
        (
            {"role": "user", "content": "what is <tool_response>?"},
            [("text", "", "what is <tool_response>?")],
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [], "function_call": WEATHER},
            [("tool_call", "weather", CALL)],
        ),
        (
            {"role": "assistant", "content": [{"type": "reasoning", "summary": [{"text": "why"}]}]},
            [("reasoning", "", "why")],
        ),
        (
            {"role": "assistant", "content": "x", "reasoning": "why", "reasoning_content": "why"},
            [("reasoning", "", "why"), ("text", "", "x")],
        ),
    ],
)
def test_reasoning_calls_and_results_of_apis_are_parts(
    message: dict[str, Any], parts: list[tuple[str, ...]]
) -> None:
    assert seen(message) == parts
    assert other_fields(message) == {}


def test_calls_and_results_are_joined_by_their_id() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}]
    call = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}

    (made,) = parts_of({"role": "assistant", "content": None, "tool_calls": [call]})
    (answered,) = parts_of({"role": "user", "content": blocks})
    (other,) = parts_of({"role": "tool", "tool_call_id": "c1", "content": "no"})

    assert made.call_id == answered.call_id == other.call_id == "c1"
    assert (answered.kind, answered.is_error, other.is_error) == ("tool_result", True, False)


def test_images_of_results_are_parts_and_further_ones_are_sizes() -> None:
    block = {"type": "image_url", "image_url": {"url": PNG}}
    result, *images = parts_of({"role": "tool", "content": [block, block]})
    many = parts_of({"role": "user", "content": [block] * (MOST_PICTURES + 2)})

    assert (result.kind, result.text) == ("tool_result", "")
    assert [part.kind for part in images] == ["image"] * 2
    assert [part.picture.data is None for part in many if part.picture] == [
        *[False] * MOST_PICTURES,
        *[True] * 2,
    ]


@pytest.mark.parametrize("arguments", ["", "{", "not json", '"text"', "7", "[" * 100_000])
def test_arguments_that_are_no_object_stay_as_written(arguments: str) -> None:
    call = {"function": {"name": "f", "arguments": arguments}}

    (part,) = parts_of({"role": "assistant", "content": "", "tool_calls": [call]})

    assert (part.text, part.characters) == (arguments, len(arguments))


@pytest.mark.parametrize("size", [0, 10, 3_900, 4_000, 5_000, 19_000])
def test_the_arguments_of_a_tool_call_are_complete(size: int) -> None:
    arguments = {"query": "x" * size}
    call = {"id": "c", "function": {"name": "search", "arguments": json.dumps(arguments)}}

    (part,) = parts_of({"role": "assistant", "content": "", "tool_calls": [call]})

    assert json.loads(part.text) == arguments
    assert cut(part, 50).text == part.text[:50]
    assert cut(part, 50).characters == len(part.text)


def test_many_parts_of_one_message_are_bounded() -> None:
    content = "".join(f"a{number}<think>b</think>" for number in range(500))

    parts = parts_of({"role": "assistant", "content": content})

    assert len(parts) == MOST_PARTS
    assert (parts[-1].kind, parts[-1].name) == ("other", "further parts")
    assert "a499" in parts[-1].text


@pytest.mark.parametrize("role", ["assistant", "user", "tool"])
@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 100_000 + "<tool_call>" * 100_000,
        "<tool_response>" + " \n" * 200_000 + "x",
        "<function=" * 100_000,
        "<|channel|>analysis" * 50_000,
        "[TOOL_CALLS]" + "a" * 500_000,
        "<tool_call>" + "<parameter=a>" * 50_000,
    ],
    ids=["think", "spaces", "function", "channel", "mistral", "parameter"],
)
def test_unclosed_markup_is_read_in_linear_time(text: str, role: str) -> None:
    began = time.process_time()

    parts = parts_of({"role": role, "content": text})

    assert parts
    assert time.process_time() - began < 1


def test_other_fields_of_a_message_are_kept() -> None:
    message = {"role": "user", "content": "x", "name": "ada", "tool_calls": "odd", "reasoning": 7}

    assert other_fields(message) == {"name": "ada", "tool_calls": "odd", "reasoning": 7}
