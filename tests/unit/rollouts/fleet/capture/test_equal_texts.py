"""An answer equals its rendering, except for the spelling of the JSON of tool calls."""

import json
from typing import Any

import pytest

from rollouts.fleet.capture.drift import matched_length, reported_calls

AFTER = "<end>\nuser: more"


def calls(*made: tuple[str, Any]) -> dict[str, Any]:
    """Return a message with tool calls, each a name and its arguments."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"function": {"name": name, "arguments": json.dumps(arguments)}}
            for name, arguments in made
        ],
    }


def matches(written: str, rendered: str, message: dict[str, Any] | None) -> bool:
    """Return whether the texts are equal, and the match ends before the text that follows."""
    found = matched_length(written, rendered + AFTER, reported_calls(message))
    assert found in {None, len(rendered)}
    return found is not None


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ('<call>{"x":1,"y":[2,3]}</call>', '<call>{"x": 1, "y": [2, 3]}</call>'),
        ('<call>{"y": [2, 3], "x": 1}</call>', '<call>{"x": 1, "y": [2, 3]}</call>'),
        ('<call>{"x": 1, "y": [2, 3]}</call>', '<call>{ "x" : 1, "y" : [2,3] }</call>'),
        (
            '<call>{"name":"add","arguments":{"y":[2,3],"x":1}}</call>',
            '<call>{"name": "add", "arguments": {"x": 1, "y": [2, 3]}}</call>',
        ),
        (
            '{"parameters": {"x":1,"y":[2,3]}, "name": "add"}',
            '{"name": "add", "parameters": {"x": 1, "y": [2, 3]}}',
        ),
    ],
)
def test_the_same_arguments_in_another_spelling_are_equal(written: str, rendered: str) -> None:
    assert matches(written, rendered, calls(("add", {"x": 1, "y": [2, 3]})))


def test_escapes_of_a_string_are_equal() -> None:
    written, rendered = '{"text":"caf\\u00e9 {\\/}"}', '{"text": "café {/}"}'

    assert matches(written, rendered, calls(("write", {"text": "café {/}"})))


def test_several_calls_and_the_text_between_them_are_compared_in_order() -> None:
    message = calls(("add", {"x": 1}), ("add", {"x": 1}), ("sub", {"a": {"b": 2}, "c": 3}))
    written = 'so {a} add{"x":1} and add{"x": 1} then sub{"c":3,"a":{"b":2}}'
    rendered = 'so {a} add{"x": 1} and add{"x": 1} then sub{"a": {"b": 2}, "c": 3}'

    assert matches(written, rendered, message)
    assert not matches(written, rendered.replace("then", "Then"), message)


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ('add{"x":1}', 'add{"x": 2}'),  # another value
        ('add{"x":1}', 'add{"x": 1.0}'),  # another type
        ('add{"x":1}', 'add{"x": true}'),
        ('add{"x":1}', 'add{"x": 1, "y": 2}'),  # another key
        ('add{"x":1}', 'add{"x": 2, "x": 1}'),  # a key twice
        ('add{"x":1}', 'add{"x": 1'),  # an incomplete object
        ('add{"x":1}', 'Add{"x": 1}'),  # another text before
        ('add{"x":1}!', 'add{"x": 1}.'),  # another text after
        ('add {"x":1}', 'add{"x": 1}'),  # a space outside the arguments
    ],
)
def test_any_other_difference_is_one(written: str, rendered: str) -> None:
    assert not matches(written, rendered, calls(("add", {"x": 1})))


@pytest.mark.parametrize(
    "message",
    [
        None,
        {"role": "assistant", "content": 'add{"x":1}'},
        calls(("add", {"x": 2})),
        calls(("add", [1])),
        {"tool_calls": [{"function": {"name": "add", "arguments": '{"x":'}}]},
    ],
)
def test_json_that_is_no_call_of_the_answer_is_text(message: dict[str, Any] | None) -> None:
    assert not matches('add{"x":1}', 'add{"x": 1}', message)


def test_the_arguments_of_another_function_are_text() -> None:
    written, rendered = '{"name":"sub","k":{"x": 1}}', '{"name": "sub", "k": {"x": 1}}'

    assert not matches(written, rendered, calls(("add", {"x": 1})))


def test_deeply_nested_text_is_compared_within_a_second() -> None:
    nested = '{"a":' * 20_000

    assert not matches(f"{nested}1", f"{nested}2", calls(("add", {"x": 1})))
