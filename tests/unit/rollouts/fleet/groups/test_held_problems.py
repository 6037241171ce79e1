"""A worker lists the leased problems that it has, until each is delivered or reported."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rolldeck.errors import InvalidRequestError, RolldeckError, UnreachableError
from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest
from rolldeck.wire import GroupsReceipt, encode
from rollouts.fleet.groups.batches import RolloutGroup, checked, numbered
from rollouts.fleet.groups.outbox import GroupEnvelope, GroupSender
from rollouts.fleet.groups.task_supply import TaskSupply
from tests.unit.rollouts.fleet.groups.language_platform import language_fleet, language_run
from tests.waiting import eventually

REFUSED = InvalidRequestError(status=422, code="invalid", detail="no")
AWAY = UnreachableError(status=0, code="unreachable", detail="away")


def train(first: int, examples: int = 2, lesson: str = "sort") -> RolloutTask:
    return RolloutTask(
        kind="train", lesson=lesson, first_example=first, examples=examples, generations=4
    )


class Platform:
    """Returns tasks in order, and keeps the requests."""

    def __init__(self, *tasks: RolloutTask) -> None:
        self.tasks = list(tasks)
        self.held: list[Any] = []
        self.pause = threading.Event()
        self.pause.set()

    def next_task(self, request: TaskRequest) -> RolloutTask:
        self.held.append(request.held)
        task = self.tasks.pop(0)
        self.pause.wait(30)
        return task

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        raise NotImplementedError((lesson, outcome))

    def renew_evaluation(self, evaluation: str, fence: int) -> None:
        raise NotImplementedError((evaluation, fence))


def ask(supply: TaskSupply) -> RolloutTask | None:
    return supply.next((1, 0), has_room=True)


def test_a_request_lists_the_problems_of_earlier_tasks() -> None:
    platform = Platform(train(0), train(7, 1, lesson="words"), train(2), train(4))
    supply = TaskSupply(platform, worker="w")
    for _ in range(3):
        ask(supply)
    supply.release("sort", [0, 3])
    supply.release("words", [7])
    ask(supply)

    assert platform.held == [
        {},
        {"sort": [0, 1]},
        {"sort": [0, 1], "words": [7]},
        {"sort": [1, 2]},
    ]


def test_problems_that_are_not_started_stay_listed() -> None:
    platform = Platform(train(0, 4), train(4))
    supply = TaskSupply(platform, worker="w")
    task = ask(supply)
    assert task is not None
    supply.return_unstarted(task, begun=1)
    supply.release("sort", [0])
    assert supply.next((1, 1), has_room=False) is None

    assert platform.held[-1] == {"sort": [1, 2, 3]}


def test_a_problem_that_is_assigned_again_is_listed_until_its_last_release() -> None:
    platform = Platform(train(0, 1), train(0, 1), train(1, 1), train(2, 1))
    supply = TaskSupply(platform, worker="w")
    ask(supply)
    ask(supply)
    supply.release("sort", [0])
    ask(supply)
    supply.release("sort", [0, 0])
    ask(supply)

    assert platform.held[2:] == [{"sort": [0]}, {"sort": [1]}]


def test_concurrent_requests_list_the_problems_of_each_other() -> None:
    platform = Platform(train(0), train(2))
    supply = TaskSupply(platform, worker="w")
    platform.pause.clear()
    loops = [threading.Thread(target=ask, args=(supply,)) for _ in range(2)]
    for loop in loops:
        loop.start()
    eventually(lambda: len(platform.held) == 1)
    platform.pause.set()
    for loop in loops:
        loop.join(30)

    assert platform.held == [{}, {"sort": [0, 1]}]


@pytest.mark.parametrize(("failure", "released"), [(None, [0, 1]), (REFUSED, [0, 1]), (AWAY, [])])
def test_a_push_ends_the_leases_of_its_problems_unless_it_is_repeated(
    failure: RolldeckError | None, released: list[int]
) -> None:
    ended: list[int] = []

    def push(content: bytes, key: str) -> GroupsReceipt:
        del content, key
        if failure is not None:
            raise failure
        return GroupsReceipt(received=2, buffered=0, dropped={}, admission_remaining=9)

    sender = GroupSender(push, on_end=lambda _, problems: ended.extend(problems))
    envelope = GroupEnvelope(
        key="k", sequences=8, group_size=4, content=b"", lesson="sort", problems=[0, 1]
    )
    with suppress(RolldeckError):
        sender([encode(envelope)])

    assert ended == released


def test_a_refused_push_among_others_is_sent_again_alone_first() -> None:
    ended: list[int] = []

    def push(content: bytes, key: str) -> GroupsReceipt:
        del content, key
        raise REFUSED

    sender = GroupSender(push, on_end=lambda _, problems: ended.extend(problems))
    envelope = encode(GroupEnvelope(key="k", sequences=4, group_size=4, content=b"", problems=[0]))
    with pytest.raises(InvalidRequestError):
        sender([envelope, envelope])

    assert ended == []


def test_every_assigned_problem_is_pushed_or_reported(tmp_path: Path) -> None:
    lessons = {
        "good": {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}},
        "raises": {"spec": "module:odd_token_environments:Raises"},
        "silent": {"spec": "module:odd_token_environments:Silent"},
        "ragged": {"spec": "module:odd_token_environments:Ragged"},
    }
    config = language_run(lessons, keeps_zero_variance=False, model={"tokenizer": "bytes"})
    with language_fleet(config, tmp_path) as platform:
        platform.publish_weights(0)
        eventually(lambda: len(platform.outcomes) > 12, seconds=120)

    reasons: dict[str, set[str]] = {}
    ended: dict[str, list[int]] = {}
    for lesson, number in platform.answered:
        ended.setdefault(lesson, []).append(number)
    for lesson, outcome in platform.outcomes:
        for reason, numbers in outcome.lost_problems.items():
            reasons.setdefault(lesson, set()).add(reason)
            ended.setdefault(lesson, []).extend(numbers)
    assert ended.keys() == lessons.keys()
    for lesson, numbers in ended.items():
        assert len(set(numbers)) == len(numbers), lesson
        # Two loops may have had a task of three problems each when the fleet was stopped.
        missing = set(range(max(numbers))).difference(numbers)
        assert all(number > max(numbers) - 6 for number in missing), lesson
    assert reasons["raises"] == {"environment_failed"}
    assert reasons["silent"] == reasons["ragged"] == {"group_invalid"}
    assert reasons.get("good", {"zero_variance"}) == {"zero_variance"}


def group(number: int | None) -> RolloutGroup:
    return RolloutGroup(example=str(number), rollouts=[], number=number)


def test_groups_without_a_number_get_the_free_ones() -> None:
    found = numbered([group(None), group(6), group(None)], [5, 6, 7])

    assert [one.number for one in found] == [5, 6, 7]


def test_a_group_of_another_problem_is_invalid() -> None:
    groups = [group(5), group(5), group(9)]

    _, faults = checked(groups, numbers=[5, 6, 7], faulty=0, generations=0)

    assert [fault.message for fault in faults] == [
        "5: its number 5 was not requested, or is that of an earlier group",
        "9: its number 9 was not requested, or is that of an earlier group",
    ]
