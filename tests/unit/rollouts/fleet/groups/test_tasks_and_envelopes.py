"""Tasks wait for room, outcomes are retried, and group batches are pushed once."""

import threading
import time
from typing import Any

import pytest

from rolldeck.errors import InvalidRequest, RolldeckError, Unreachable
from rolldeck.http import Backoff
from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest
from rolldeck.wire import GroupsReceipt, encode
from rollouts.fleet.groups.language_policy import ServedPolicy, policy_of
from rollouts.fleet.groups.outbox import GroupEnvelope, GroupSender
from rollouts.fleet.groups.platform_curriculum import PlatformCurriculum
from rollouts.fleet.groups.task_supply import TaskSupply
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from runs.config.rules.servers import INFERENCE_SERVERS
from tests.unit.rollouts.fleet.groups.conftest import language
from tests.unit.rollouts.fleet.groups.local_curriculum import LocalCurriculum

LESSONS = {"sort": {"spec": "task:sort"}}
AWAY = Unreachable(status=0, code="unreachable", detail="away")
REFUSED = InvalidRequest(status=422, code="invalid", detail="no")
QUICK = Backoff(first_seconds=0.001, most_seconds=0.01)


class Platform:
    """Returns tasks in order, after a number of failures."""

    def __init__(self, *tasks: RolloutTask, failures: "list[RolldeckError] | None" = None) -> None:
        self.tasks = list(tasks)
        self.failures = failures or []
        self.requested_steps: list[int] = []
        self.outcomes: list[str] = []

    def next_task(self, request: TaskRequest) -> RolloutTask:
        self.requested_steps.append(request.policy_step)
        return self.tasks.pop(0) if self.tasks else RolloutTask(kind="wait", wait_seconds=60.0)

    def record_outcome(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        if self.failures:
            raise self.failures.pop(0)
        self.outcomes.append(f"{lesson}/{outcome.key}")
        return OutcomeReceipt(is_new=True)

    def record(self, lesson: str, outcome: LessonOutcome) -> OutcomeReceipt:
        return self.record_outcome(lesson, outcome)


def train(first: int = 0) -> RolloutTask:
    return RolloutTask(
        kind="train", lesson="sort", first_example=first, examples=8, generations=4, seed=1
    )


def outcome(**changes: Any) -> LessonOutcome:
    fields: dict[str, Any] = {
        "key": "k",
        "worker": "w",
        "mode": "train",
        "epoch": 1,
        "policy_step": 0,
        "generations": 2,
        "rewards": [1.0, 0.0],
        "successes": [True, False],
    }
    return LessonOutcome(**(fields | changes))


def test_without_room_a_task_is_requested_once_for_each_version() -> None:
    platform = Platform(train(), RolloutTask(kind="evaluate", lesson="sort"), train(8))
    supply = TaskSupply(platform, worker="w")

    assert supply.next((1, 0), has_room=False) is None
    assert supply.next((1, 0), has_room=False) is None
    due = supply.next((1, 1), has_room=False)
    assert due is not None
    assert due.kind == "evaluate"
    task = supply.next((1, 1), has_room=True)
    assert task == train()
    assert platform.requested_steps == [0, 1]


def test_unstarted_examples_are_next() -> None:
    supply = TaskSupply(Platform(train(100)), worker="w")
    supply.return_unstarted(train(), begun=3)
    rest = supply.next((1, 0), has_room=True)

    assert rest is not None
    assert (rest.first_example, rest.examples, rest.seed) == (3, 5, 1)
    supply.return_unstarted(train(), begun=8)
    assert supply.next((1, 0), has_room=True) == train(100)


def test_a_worker_waits_before_the_next_request() -> None:
    platform = Platform(RolloutTask(kind="wait", reason="paused", wait_seconds=60.0), train())
    supply = TaskSupply(platform, worker="w")

    assert supply.next((1, 0), has_room=True) is None
    assert supply.reason == "paused"
    assert supply.next((1, 0), has_room=True) is None
    assert platform.requested_steps == [0]


def test_an_outcome_is_repeated_until_the_platform_accepts_it() -> None:
    platform = Platform(failures=[AWAY, AWAY])
    curriculum = PlatformCurriculum(platform, stop=threading.Event(), backoff=QUICK)

    assert curriculum.record("sort", outcome()).is_new
    assert platform.outcomes == ["sort/k"]


def test_a_refused_or_late_outcome_is_dropped() -> None:
    refusing = PlatformCurriculum(
        Platform(failures=[REFUSED]), stop=threading.Event(), backoff=QUICK
    )
    with pytest.raises(InvalidRequest):
        refusing.record("sort", outcome())
    late = PlatformCurriculum(
        Platform(failures=[AWAY] * 1000),
        stop=threading.Event(),
        backoff=QUICK,
        record_seconds=0.05,
    )
    with pytest.raises(Unreachable):
        late.record("sort", outcome())


def test_a_stop_ends_the_sending_of_outcomes() -> None:
    stop = threading.Event()
    curriculum = PlatformCurriculum(
        Platform(failures=[AWAY] * 1000),
        stop=stop,
        backoff=Backoff(first_seconds=600.0, most_seconds=600.0),
    )
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Unreachable):
        curriculum.record("sort", outcome())

    assert time.monotonic() - began < 60


def test_envelopes_are_pushed_in_order_and_repeated_under_their_keys() -> None:
    pushed: list[str] = []
    failing = ["second"]

    def push(content: bytes, key: str) -> GroupsReceipt:
        if key in failing:
            failing.remove(key)
            raise AWAY
        pushed.append(f"{key}:{len(content)}")
        return GroupsReceipt(
            received=2, buffered=0, dropped={"stale_version": 1}, admission_remaining=9
        )

    postman = GroupSender(push)
    envelopes = [
        encode(GroupEnvelope(key=key, sequences=12, group_size=4, content=b"xyz"))
        for key in ("first", "second")
    ]
    with pytest.raises(Unreachable):
        postman(envelopes)
    assert postman.sent == 0
    receipt = postman(envelopes)

    assert pushed == ["first:3", "first:3", "second:3"]
    assert (receipt.accepted, receipt.admission_remaining) == (16, 9)
    assert (postman.sent, postman.dropped) == (6, {"stale_version": 8})


def test_a_local_curriculum_counts_an_outcome_once_and_micro_evaluations_never() -> None:
    curriculum = LocalCurriculum(language(LESSONS))
    assert curriculum.record("sort", outcome()).is_new
    assert not curriculum.record("sort", outcome()).is_new
    curriculum.record("sort", outcome(key="m", mode="micro_eval"))
    assert curriculum.standing["sort"].training.samples == 2
    assert curriculum.standing["sort"].evaluation.samples == 0

    receipt = curriculum.record(
        "sort",
        outcome(key="e", mode="eval", generations=1, rewards=[1.0] * 64, successes=[True] * 64),
    )
    assert "active → graduated" in receipt.changes[0]
    request = TaskRequest(worker="w", epoch=1, policy_step=0)
    assert curriculum.next_task(request).reason == "curriculum_complete"


def test_a_run_samples_from_the_server_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        INFERENCE_SERVERS, '{"ours": {"kind": "rolldeck", "url": "http://127.0.0.1:1"}}'
    )
    policy = policy_of(language(LESSONS, inference="ours"), run="r", device="cpu", rows=4)
    assert isinstance(policy, ServedPolicy)
    assert policy.tokenizer.vocab_size == 12
    policy.server.close()

    with pytest.raises(PolicyDoesNotFit, match="ours"):
        policy_of(language(LESSONS, inference="theirs"), run="r", device="cpu", rows=4)
