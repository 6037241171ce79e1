"""Text tasks: their examples, rewards, specs and errors."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.engine.tokenizers import AlphabetTokenizer
from rollouts.tasks.rules.task import (
    CALL,
    Addition,
    Example,
    InvalidTask,
    Reverse,
    Shopping,
    Sort,
    Task,
    Turn,
    alphabet_of,
    examples,
    make_task,
)

TASKS: list[Task] = [
    Reverse(length=3),
    Reverse(length=8, letters=4),
    Sort(length=4),
    Addition(digits=1),
    Addition(digits=4),
    Shopping(goods=3, highest=99),
]


def answered(task: Task, prompt: str, answer: str, *turns: str) -> tuple[float, bool, str]:
    example = Example(key="x", prompt=prompt, answer=answer)
    past_turns = [Turn(turn) for turn in turns]
    reply = task.reply(example, past_turns)
    return reply.reward, reply.is_over, reply.text


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@given(number=st.integers(0, 10**6))
def test_examples_are_constant_and_within_the_alphabet(task: Task, number: int) -> None:
    [one], [again] = (examples(task, [number], mode="train", seed=7) for _ in range(2))

    assert one == again
    assert one.key == f"{task.name}/train/7/{number}"
    assert AlphabetTokenizer(task.alphabet).encode(one.prompt + one.answer)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_examples_differ_by_number_mode_and_seed(task: Task) -> None:
    many = [example.prompt for example in examples(task, range(200), mode="train", seed=1)]
    others = [example.prompt for example in examples(task, range(200), mode="eval", seed=1)]

    assert len(set(many)) > 50
    assert many != others
    assert many != [example.prompt for example in examples(task, range(200), mode="train", seed=2)]


@pytest.mark.parametrize("task", TASKS[:5], ids=lambda task: task.name)
@given(number=st.integers(0, 1000))
def test_the_expected_answer_is_right_and_an_empty_one_wrong(task: Task, number: int) -> None:
    [example] = examples(task, [number], mode="eval", seed=0)

    right = task.reply(example, [Turn(f" {example.answer}\n")])
    assert (right.reward, right.is_correct, right.is_over) == (1.0, True, True)
    for turn in (Turn(""), Turn(example.answer, is_truncated=True)):
        wrong = task.reply(example, [turn])
        assert (wrong.reward, wrong.is_correct, wrong.is_over) == (0.0, False, True)


def test_a_near_answer_scores_less_than_a_right_one() -> None:
    task = Reverse(length=4)

    assert answered(task, "abcd>", "dcba", "dcba") == (1.0, True, "")
    assert answered(task, "abcd>", "dcba", "dcbx")[0] == pytest.approx(0.375)
    assert answered(task, "abcd>", "dcba", "zzzz")[0] == 0.0
    assert answered(Addition(), "1+2=", "3", "33")[0] == 0.0


@pytest.mark.parametrize("task", [*TASKS, Shopping(goods=1, highest=1)], ids=lambda task: task.name)
@given(number=st.integers(0, 1000))
def test_a_demonstration_succeeds_within_the_alphabet(task: Task, number: int) -> None:
    [example] = examples(task, [number], mode="train", seed=0)
    turns = [Turn(text) for text in task.demonstrate(example)]

    replies = [task.reply(example, turns[: place + 1]) for place in range(len(turns))]

    assert [reply.is_over for reply in replies] == [*[False] * (len(turns) - 1), True]
    assert replies[-1].is_correct
    text = "".join([*(turn.text for turn in turns), *(reply.text for reply in replies)])
    assert AlphabetTokenizer(task.alphabet).encode(text)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@given(text=st.text(max_size=40))
def test_the_reward_of_any_answer_is_between_0_and_1(task: Task, text: str) -> None:
    [example] = examples(task, [0], mode="train", seed=0)

    reply = task.reply(example, [Turn(text)])

    assert 0 <= reply.reward <= 1
    assert (reply.reward == 1) == reply.is_correct
    assert bool(reply.text) is not reply.is_over


PURCHASE = "Ana buys 3 pens at 17 coins each and 2 eggs at 4 coins each. How much does Ana pay?\n"
RIGHT = "Ana pays 59 coins."


def call(expression: str) -> str:
    return expression.join(CALL)


def test_a_price_is_computed_by_a_call_before_the_answer() -> None:
    task = Shopping()
    asked = call("3*17+2*4")

    result = "<tool_response>59</tool_response>\n"
    assert asked == (
        '<tool_call>{"name": "calculate", "arguments": {"expression": "3*17+2*4"}}</tool_call>'
    )
    assert answered(task, PURCHASE, RIGHT, asked) == (0.0, False, result)
    assert answered(task, PURCHASE, RIGHT, asked, RIGHT) == (1.0, True, "")
    assert answered(task, PURCHASE, RIGHT, RIGHT) == (1.0, True, "")
    assert answered(task, PURCHASE, RIGHT, asked, "Ana pays 58 coins.") == (0.0, True, "")
    assert answered(task, PURCHASE, RIGHT, asked, asked) == (0.0, True, "")


@pytest.mark.parametrize(
    "expression", ["", "3*", "a+b", "1-1", "(1)", "1/1", "9999999+1", "2**9", "1+" * 40 + "1"]
)
def test_a_call_that_cannot_be_computed_returns_an_error(expression: str) -> None:
    error = "<tool_response>error</tool_response>\n"
    assert answered(Shopping(), PURCHASE, RIGHT, call(expression)) == (0.0, False, error)


@pytest.mark.parametrize("turn", ["", "59", "Ana pays", CALL[0] + "1+1", "1+1" + CALL[1]])
def test_an_invalid_turn_ends_the_episode(turn: str) -> None:
    assert answered(Shopping(), PURCHASE, RIGHT, turn) == (0.0, True, "")


def test_difficulty_makes_prompts_longer() -> None:
    lengths = [len(Reverse(length=n).example(random.Random(0), key="x").prompt) for n in (2, 5, 9)]
    assert lengths == [3, 6, 10]


@pytest.mark.parametrize(
    ("spec", "kwargs", "task"),
    [
        ("task:reverse", {}, Reverse()),
        ("task:reverse", {"length": 5, "letters": 8}, Reverse(length=5, letters=8)),
        ("task:sort", {"length": 2}, Sort(length=2)),
        ("task:addition", {"digits": 3}, Addition(digits=3)),
        ("task:shopping", {"goods": 1}, Shopping(goods=1)),
    ],
)
def test_a_spec_and_its_arguments_make_a_task(
    spec: str, kwargs: dict[str, Any], task: Task
) -> None:
    assert make_task(spec, kwargs) == task


@pytest.mark.parametrize(
    ("spec", "kwargs", "message"),
    [
        ("task:chess", {}, "spec: task:chess is unknown; choose from task:reverse, task:sort"),
        ("reverse", {}, "spec: reverse is unknown; choose from"),
        ("task:sort", {"digits": 3}, "kwargs.digits: task:sort accepts only length"),
        ("task:sort", {"length": 0}, "kwargs.length: 0 is not an integer from 1"),
        ("task:sort", {"length": "4"}, "kwargs.length: '4' is not an integer"),
        ("task:sort", {"length": True}, "kwargs.length: True is not an integer"),
        ("task:sort", {"length": 10**9}, "kwargs.length: 1000000000 is not an integer"),
    ],
)
def test_invalid_specs_are_named(spec: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTask) as caught:
        make_task(spec, kwargs)

    assert str(caught.value).startswith(message)


def test_an_alphabet_holds_each_character_of_all_tasks_once() -> None:
    tasks = [Sort(length=3), Addition(), Reverse(letters=3)]

    assert alphabet_of(tasks) == tuple("+0123456789:=>abc")
    assert alphabet_of(reversed(tasks)) == alphabet_of(tasks)
    assert {"Ana ", "pay?"} <= set(alphabet_of([*tasks, Shopping()]))
