"""Repair of tokens that changed because a server tokenized the text of an answer again."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from buffer.capture.rules import assemble
from rolldeck.captures import Answer, CallPush, Repair
from rollouts.fleet.capture.drift import DriftRepair, matched_length, reported_calls

WORDS = ["", "a", "b", "ab", "<end>", "\n", "c", "\ufffd", "user:", "ai:"]
"""Texts of the tokens; the text of tokens 1 and 2 is that of token 3."""
A, B, AB, END, LINE, C, BROKEN, USER, AI = range(1, 10)
AFTER = "<end>\nuser: more"


class Server:
    """Decodes tokens, and counts the requests."""

    def __init__(self) -> None:
        self.requests = 0
        self.is_known = True

    async def detokenize(self, tokens: Sequence[int]) -> str | None:
        self.requests += 1
        return "".join(WORDS[token] for token in tokens) if self.is_known else None


def call(prompt: list[int], *answers: list[int]) -> CallPush:
    return CallPush(
        key="k",
        kind="chat",
        prompt_tokens=prompt,
        answers=[Answer(tokens=one, logprobs=[-0.5] * len(one)) for one in answers],
    )


def repaired(server: Server, *calls: CallPush) -> list[CallPush]:
    """Return the calls of one session with their repairs."""
    drift = DriftRepair(server.detokenize)
    made = []
    for one in calls:
        made.append(asyncio.run(drift.repaired("s", one)))
        drift.remember("s", made[-1])
    return made


def sequences(calls: list[CallPush]) -> list[list[int]]:
    """Return the sequences that the platform assembles from calls."""
    made = assemble(calls)
    assert made.repairs == sum(one.repair is not None for one in calls)
    return [sequence.tokens for sequence in made.sequences]


def test_a_prompt_with_the_same_text_gets_the_sampled_tokens() -> None:
    first = call([USER, C, AI], [A, B, END])
    second = call([USER, C, AI, AB, END, LINE, USER, C, AI], [C, END])

    made = repaired(Server(), first, second)

    assert made[1].repair == Repair(start=3, stop=5, tokens=[A, B, END])
    assert sequences(made) == [[USER, C, AI, A, B, END, LINE, USER, C, AI, C, END]]


def test_several_drifted_answers_are_repaired_in_one_part() -> None:
    first = call([USER, C, AI], [A, B, END])
    second = call([USER, C, AI, AB, END, USER, C, AI], [A, B, A, B, END])
    third = call([USER, C, AI, AB, END, USER, C, AI, AB, AB, END, USER, AI], [C, END])

    made = repaired(Server(), first, second, third)

    assert made[2].repaired_prompt == [
        *(USER, C, AI, A, B, END, USER, C, AI, A, B, A, B, END, USER, AI)
    ]
    assert len(sequences(made)) == 1


def test_a_drift_at_the_end_of_a_prompt_is_repaired() -> None:
    """The last token of a prompt merges with the first sampled one."""
    made = repaired(Server(), call([USER, A], [B, END]), call([USER, AB, END, LINE], [C]))

    assert made[1].repair == Repair(start=1, stop=3, tokens=[A, B, END])


def test_an_exact_continuation_needs_no_request() -> None:
    server = Server()

    made = repaired(server, call([USER, AI], [A, B, END]), call([USER, AI, A, B, END, USER], [C]))

    assert (made[1].repair, server.requests) == (None, 0)


@pytest.mark.parametrize(
    "prompt",
    [
        [USER, C, AI, AB, LINE, USER],  # the text differs: the end is missing
        [USER, C, AI, AB],  # the prompt ends before the answer does
        [USER, C, AI, A, C, END],  # an edited answer
        [USER, USER, C, AI, AB, END],  # another beginning: not a part that was sampled
    ],
)
def test_another_text_begins_a_new_sequence(prompt: list[int]) -> None:
    made = repaired(Server(), call([USER, C, AI], [A, B, END]), call(prompt, [C, END]))

    assert made[1].repair is None
    assert len(sequences(made)) == 2


def test_a_token_that_reaches_beyond_the_answer_begins_a_new_sequence() -> None:
    """The answer was cut at its limit, and its last token merged with the text after it."""
    made = repaired(Server(), call([USER, AI], [C, A]), call([USER, AI, C, AB, END], [C]))

    assert made[1].repair is None


def test_an_unknown_text_begins_a_new_sequence() -> None:
    """Without a decoder, or with characters that stand for any invalid bytes, nothing is proven."""
    unknown = Server()
    unknown.is_known = False
    calls = call([USER, AI], [A, B, END]), call([USER, AI, AB, END], [C])
    broken = call([USER, AI], [BROKEN, A, B]), call([USER, AI, BROKEN, AB], [C])

    assert repaired(unknown, *calls)[1].repair is None
    assert repaired(Server(), *broken)[1].repair is None


def test_each_branch_of_a_conversation_is_repaired_from_its_own_answer() -> None:
    first = call([USER, AI], [A, B, END], [C, A, B, END])
    other = call([USER, AI, C, AB, END, USER], [C])

    made = repaired(Server(), first, other)

    assert made[1].repair == Repair(start=3, stop=5, tokens=[A, B, END])


def test_the_least_recent_sessions_are_forgotten() -> None:
    server = Server()
    drift = DriftRepair(server.detokenize, most_bytes=40)
    for session in ("one", "two", "three"):
        drift.remember(session, call([USER, AI], [A, B, END]))
    again = call([USER, AI, AB, END], [C])

    forgotten = asyncio.run(drift.repaired("one", again))
    known = asyncio.run(drift.repaired("three", again))

    assert forgotten.repair is None
    assert known.repair is not None


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
