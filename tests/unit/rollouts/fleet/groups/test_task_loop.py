"""Tasks, credits, outcomes and envelopes of a language worker's loops."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolldeck.errors import ConflictError, InvalidRequestError, RolldeckError, UnreachableError
from rolldeck.http import Backoff
from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest
from rolldeck.wire import GroupsReceipt, encode
from rollouts.fleet.groups.curriculum import LeaseRenewer, PlatformCurriculum
from rollouts.fleet.groups.language_policy import ServedPolicy, policy_of
from rollouts.fleet.groups.outbox import GroupEnvelope, GroupSender
from rollouts.fleet.groups.task_loop import TaskLoop
from rollouts.fleet.groups.task_supply import Credits, TaskSupply
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from rollouts.fleet.process.spans import PipelineMonitor
from rollouts.fleet.worker.messages import WorkerCommand, obstacle_without_credits
from runs.config.rules.servers import INFERENCE_SERVERS
from tests.unit.rollouts.fleet.groups.conftest import language

LESSONS = {"sort": {"spec": "task:sort"}}
AWAY = UnreachableError(status=0, code="unreachable", detail="away")
REFUSED = InvalidRequestError(status=422, code="invalid", detail="no")
QUICK = Backoff(first_seconds=0.001, most_seconds=0.01)
STEPS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6), st.floats(0, 1)), max_size=30)
SHORT = 0.03
SECONDS = 30
NO_RESPONSE = UnreachableError(status=0, code="unreachable", detail="no response")


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
    with pytest.raises(InvalidRequestError):
        refusing.record("sort", outcome())
    late = PlatformCurriculum(
        Platform(failures=[AWAY] * 1000),
        stop=threading.Event(),
        backoff=QUICK,
        record_seconds=0.05,
    )
    with pytest.raises(UnreachableError):
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
    with pytest.raises(UnreachableError):
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
    with pytest.raises(UnreachableError):
        postman(envelopes)
    assert postman.sent == 0
    receipt = postman(envelopes)

    assert pushed == ["first:3", "first:3", "second:3"]
    assert (receipt.accepted, receipt.admission_remaining) == (16, 9)
    assert (postman.sent, postman.dropped) == (6, {"stale_version": 8})


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


@given(st.integers(1, 9), STEPS)
def test_granted_credits_are_unspent_spent_or_transferred(
    group_size: int, steps: list[tuple[int, int, float]]
) -> None:
    room, granted, handed_over = Credits(), 0, 0
    for more, requested, share in steps:
        room.grant(more)
        granted += more
        groups = room.reserve(groups=requested, group_size=group_size)
        assert groups <= requested
        assert groups == requested or room.unspent < group_size
        sent = int(groups * share) * group_size
        assert sum(room.held()) == granted - handed_over
        room.settle(sequences=groups * group_size, handed_over=sent)
        handed_over += sent

        assert room.held() == (granted - handed_over, 0)


def test_one_group_may_exceed_a_remainder_while_nothing_is_sampled() -> None:
    room = Credits()
    room.grant(12)

    assert room.reserve(groups=2, group_size=8, may_exceed=True) == 1
    # A group is being sampled, whose credits may come back.
    assert room.reserve(groups=1, group_size=8, may_exceed=True) == 0
    room.settle(sequences=8, handed_over=8)
    assert room.reserve(groups=1, group_size=8) == 0
    assert room.reserve(groups=5, group_size=8, may_exceed=True) == 1
    assert room.held() == (-4, 8)
    room.settle(sequences=8, handed_over=8)
    assert room.reserve(groups=1, group_size=1, may_exceed=True) == 0
    room.grant(12)
    assert room.held() == (8, 0)


@pytest.mark.parametrize(
    ("newest", "wait", "reason"),
    [
        (4, "waiting_room", "waiting for room in the buffer"),
        (5, "waiting_weights", "waiting for version 5 of the weights"),
    ],
)
def test_worker_with_an_old_version_waits_for_weights(newest: int, wait: str, reason: str) -> None:
    monitor = PipelineMonitor(now=time.monotonic())
    context: Any = SimpleNamespace(
        config=SimpleNamespace(language=None),
        active=lambda: (1, 4),
        supply=SimpleNamespace(next=lambda *_, **__: None),
        credits=Credits(),
        has_room=lambda: True,
        monitor=monitor,
        wake=threading.Condition(),
    )
    worker: Any = SimpleNamespace()
    loop = TaskLoop(context, index=0)
    loop.command = WorkerCommand(desired="running", epoch=1, policy_step=newest)

    loop.turn(worker)

    assert list(monitor.shares(time.monotonic())) == [wait]
    assert obstacle_without_credits((1, 4), loop.command) == reason


class RenewingPlatform:
    """Accepts or refuses renewals."""

    def __init__(self, *answers: RolldeckError | None) -> None:
        self._answers = list(answers)
        self.renewals = threading.Semaphore(0)
        self.count = 0
        self.lost: list[RolldeckError] = []

    def renew(self) -> None:
        self.count += 1
        answer = self._answers.pop(0) if self._answers else None
        self.renewals.release()
        if answer is not None:
            raise answer

    def keeper(self) -> LeaseRenewer:
        return LeaseRenewer(self.renew, lease_seconds=SHORT, on_lost=self.lost.append)


def wait(platform: RenewingPlatform, *, renewals: int) -> None:
    for _ in range(renewals):
        assert platform.renewals.acquire(timeout=SECONDS)


def test_a_lease_is_renewed_while_the_work_lasts() -> None:
    platform = RenewingPlatform()
    with platform.keeper():
        wait(platform, renewals=5)
    after = platform.count

    # One renewal may have been in progress when the evaluation ended.
    assert not (platform.renewals.acquire(timeout=10 * SHORT) and platform.count > after + 1)
    assert platform.lost == []


def test_a_renewal_is_retried_in_an_outage() -> None:
    platform = RenewingPlatform(NO_RESPONSE, NO_RESPONSE)
    with platform.keeper():
        wait(platform, renewals=4)
    assert platform.lost == []


def test_a_lost_lease_is_reported_once() -> None:
    refusal = ConflictError(status=409, code="lease_lost", detail="it is another's")
    platform = RenewingPlatform(None, refusal)
    with platform.keeper():
        wait(platform, renewals=2)
        assert not platform.renewals.acquire(timeout=10 * SHORT)
    assert platform.lost == [refusal]


def test_an_error_of_the_work_ends_the_renewal() -> None:
    platform = RenewingPlatform()
    with pytest.raises(ZeroDivisionError), platform.keeper():
        raise ZeroDivisionError
    assert platform.count <= 1
