"""A worker loads weights during rollouts and always reports the version in use."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from worker_bench import Bench, bench

from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    Fragment,
    unpack_array,
)
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.policies.policy_protocol import Decision
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.weights.records import Rank, Version, WeightsRecord, WeightsUnavailable
from tests.waiting import eventually

PARAMETERS = set(MlpPolicy(4, 2, [8]).state_dict())
MakeSettings = Callable[..., WorkerSettings]


class Labelled:
    """Policy whose actions and values reveal its current weights."""

    def __init__(self, *, prepare_seconds: float = 0.0) -> None:
        self.prepare_seconds = prepare_seconds
        self.held = -1
        self.adopted: list[int] = []
        self.may_load = threading.Event()
        """While it is not set, `prepare` waits."""
        self.may_load.set()
        self.flaws: list[Exception] = []
        """Errors raised by the next calls of `prepare`, one each."""

    def initial_state(self, _: int) -> dict[str, Any]:
        return {}

    def act(self, obs: Any, *_: Any) -> Decision:
        return Decision(
            actions=np.full(len(obs), self.held % 2, dtype=np.int64),
            logprobs=np.zeros(len(obs), dtype=np.float32),
            values=np.full(len(obs), self.held, dtype=np.float32),
        )

    def prepare(self, tensors: Any) -> int:
        time.sleep(self.prepare_seconds)
        self.may_load.wait()
        if self.flaws:
            raise self.flaws.pop(0)
        return int(tensors["label"][0])

    def adopt(self, label: int) -> None:
        self.held = label
        self.adopted.append(label)


def version(step: int, *, epoch: int = 1, order: int = 0) -> WeightsRecord:
    tensors = {"label": np.array([step], dtype=np.float32)}
    return WeightsRecord(epoch=epoch, step=step, tensors=tensors, order=order)


@contextmanager
def labelled(settings: WorkerSettings, policy: Labelled) -> Iterator[Bench]:
    b = Bench(settings, policy_factory=lambda *_: policy)
    try:
        b.worker.update_weights(version(0))
        b.order(credits=1_000_000)
        yield b
    finally:
        policy.may_load.set()
        b.worker.stop()


def every_label_is_true(fragments: list[Fragment]) -> bool:
    labels = [unpack_array(f.arrays["policy_step"]) for f in fragments]
    values = [unpack_array(f.arrays["value"]) for f in fragments]
    actions = [unpack_array(f.arrays["action"]) for f in fragments]
    return all(
        np.array_equal(label, value) and np.array_equal(label % 2, action)
        for label, value, action in zip(labels, values, actions, strict=True)
    )


@pytest.fixture
def settings(make_worker_settings: MakeSettings) -> WorkerSettings:
    return make_worker_settings(spec="odd:counting", max_staleness=100)


def test_updates_during_slow_loads_never_mislabel_a_step(settings: WorkerSettings) -> None:
    policy = Labelled(prepare_seconds=0.05)
    with labelled(settings, policy) as b:
        eventually(lambda: b.order().report.active_step == 0)
        for step in range(1, 60):
            b.worker.update_weights(version(step))
            time.sleep(0.01)
            if step % 12 == 0:  # a busy machine completes no fragment for long
                seen = step // 12
                eventually(lambda seen=seen: len({f.version_max for f in b.fragments}) > seen)
        eventually(lambda: b.order(policy_step=59).report.active_step == 59)
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent + 8)
        states = b.order(policy_step=59).report.transfers

    assert every_label_is_true(b.fragments)
    assert len({f.version_max for f in b.fragments}) > 3
    assert policy.adopted == sorted(set(policy.adopted))
    assert states.adopted == len(policy.adopted)
    assert states.superseded > 0
    # Every version has exactly one final state.
    assert states.adopted + states.superseded == 60


def test_the_race_of_a_second_update_during_a_slow_load_ends_at_the_second(
    settings: WorkerSettings,
) -> None:
    policy = Labelled(prepare_seconds=0.3)
    with labelled(settings, policy) as b:
        eventually(lambda: b.order().report.active_step == 0)
        b.worker.update_weights(version(1))
        eventually(lambda: b.order(policy_step=1).report.staged_step == 1)
        b.worker.update_weights(version(2))
        eventually(lambda: b.order(policy_step=2).report.active_step == 2)
        states = b.order(policy_step=2).report.transfers

    assert policy.held == 2
    assert states.adopted + states.superseded == 3
    assert every_label_is_true(b.fragments)


def test_sampling_continues_at_its_rate_while_a_version_is_loaded(
    make_worker_settings: MakeSettings,
) -> None:
    # Environments that sleep set the pace, even on a busy machine.
    settings = make_worker_settings(
        spec="odd:counting", kwargs={"seconds": 0.01}, max_staleness=100, fragment_length=64
    )
    policy = Labelled()

    def pace(b: Bench) -> float:
        before = b.steps()
        return 100 / eventually(lambda: b.steps() >= before + 100)

    ratios = []
    with labelled(settings, policy) as b:
        eventually(lambda: b.steps() > 40)
        for step in (1, 2, 3):
            alone = pace(b)
            policy.may_load.clear()
            b.worker.update_weights(version(step))
            eventually(lambda step=step: b.order().report.staged_step == step)
            ratios.append(pace(b) / alone)
            policy.may_load.set()
            eventually(lambda step=step: b.order().report.active_step == step)

    assert max(ratios) >= 0.9, ratios


def test_weights_that_do_not_fit_are_refused_with_a_reason(settings: WorkerSettings) -> None:
    with bench(settings) as b:
        eventually(lambda: b.order().report.active_step == 0)
        odd = {
            "policy_net.0.weight": np.zeros((3, 3), dtype=np.float32),
            "odd": np.zeros(1, dtype=np.float32),
        }
        b.worker.update_weights(WeightsRecord(epoch=1, step=1, tensors=odd))
        eventually(lambda: b.order(policy_step=1) and "weights_refused" in b.events)
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent)
        refused = b.order(policy_step=1).report
        b.publish(2)
        eventually(lambda: b.order(policy_step=2).report.active_step == 2)
        mended = b.order(policy_step=2).report

    assert (refused.announced_step, refused.staged_step, refused.active_step) == (1, 1, 0)
    assert refused.reason.startswith("the weights of version 1 do not fit: names or shapes differ")
    assert refused.transfers.refused == 1
    [event] = [event for event in b.reported if event.kind == "weights_refused"]
    assert event.details["version"] == [1, 1]
    assert event.details["parameters"] == {
        "policy_net.0.weight": "is [3, 3], expected [8, 4]",
        "odd": "is unknown",
        **dict.fromkeys(PARAMETERS - {"policy_net.0.weight"}, "is missing"),
    }
    assert mended.reason == ""


def test_a_worker_whose_first_weights_do_not_fit_waits_for_the_next(
    settings: WorkerSettings,
) -> None:
    b = Bench(settings)
    try:
        odd = {"n" * 5000: np.zeros(1, dtype=np.float32)}
        b.worker.update_weights(WeightsRecord(epoch=1, step=0, tensors=odd))
        eventually(lambda: b.order(credits=100) and "weights_refused" in b.events, 60.0)
        refused = b.order().report
        b.publish(1)
        eventually(lambda: b.order(policy_step=1).report.active_step == 1)
        eventually(lambda: b.fragments)
    finally:
        b.worker.stop()

    assert (refused.state, refused.active_step, refused.env_steps) == ("running", -2, 0)
    # The platform would refuse a longer report repeatedly.
    assert "do not fit" in refused.reason
    assert len(refused.reason) <= 2000
    assert {fragment.version_min for fragment in b.fragments} == {1}


def test_a_failed_load_is_an_event_and_repeated(settings: WorkerSettings) -> None:
    policy = Labelled()
    with labelled(settings, policy) as b:
        eventually(lambda: b.order().report.active_step == 0)
        policy.flaws = [RuntimeError("out of memory")]
        b.worker.update_weights(version(1))
        eventually(lambda: b.order(policy_step=1).report.active_step == 1)

    assert b.events.count("loop_crashed") == 1


def test_a_hanging_load_is_reported_while_sampling_continues(
    make_worker_settings: MakeSettings,
) -> None:
    settings = make_worker_settings(
        spec="odd:counting", max_staleness=100, weights_timeout_seconds=0.5
    )
    policy = Labelled()
    with labelled(settings, policy) as b:
        eventually(lambda: b.order().report.active_step == 0)
        policy.may_load.clear()
        b.worker.update_weights(version(1))
        eventually(lambda: b.order(policy_step=1).report.state == "failed")
        steps = b.steps()
        eventually(lambda: b.steps() > steps)
        report = b.order(policy_step=1).report

    assert report.reason.startswith("a version has been loading for")


class Unsteady:
    """Source of version 1 that fails a number of times first."""

    version: Version = (1, 1)
    rank: Rank = (0, 1, 1)

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.record = version(1)

    def receive(self, version: Version) -> WeightsRecord | None:
        if self.failures:
            raise self.failures.pop(0)
        return self.record.receive(version)


def test_a_missing_version_is_reported_once_and_retried(settings: WorkerSettings) -> None:
    flaws = WeightsUnavailable("away"), InvalidMessageError("torn"), WeightsUnavailable("away")
    with labelled(settings, Labelled()) as b:
        eventually(lambda: b.order().report.active_step == 0)
        b.worker.update_weights(Unsteady(*flaws))
        eventually(lambda: b.order(policy_step=1).report.active_step == 1)
        states = b.order(policy_step=1).report.transfers

    assert b.events.count("weights_not_received") == 1
    assert (states.failed, states.received, states.adopted) == (3, 2, 2)
    assert states.received_bytes == 8


def test_an_older_version_is_never_loaded_over_a_newer_one_unless_its_epoch_is_new(
    settings: WorkerSettings,
) -> None:
    policy = Labelled()
    with labelled(settings, policy) as b:
        b.worker.update_weights(version(10))
        eventually(lambda: b.order(policy_step=10).report.active_step == 10)
        assert b.worker.update_weights(version(7)) == (1, 10)
        assert b.worker.update_weights(version(7, epoch=2)) == (2, 7)
        eventually(lambda: b.order(epoch=2, policy_step=7).report.active_step == 7)
        eventually(lambda: any(f.epoch == 2 for f in b.fragments))

    assert policy.adopted[-2:] == [10, 7]
    assert every_label_is_true(b.fragments)


def test_a_command_loads_an_older_version_and_reloads_the_same_one(
    settings: WorkerSettings,
) -> None:
    policy = Labelled()
    with labelled(settings, policy) as b:
        b.worker.update_weights(version(10))
        eventually(lambda: b.order(policy_step=10).report.active_step == 10)
        assert b.worker.update_weights(version(7, order=1)) == (1, 7)
        eventually(lambda: b.order(policy_step=7).report.active_step == 7)
        assert b.worker.update_weights(version(7, order=2)) == (1, 7)
        eventually(lambda: b.order(policy_step=7).report.transfers.order == 2)
        assert b.worker.update_weights(version(10, order=1)) == (1, 7)
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent + 4)
        states = b.order(policy_step=7).report.transfers

    assert policy.adopted[-3:] == [10, 7, 7]
    assert every_label_is_true(b.fragments)
    assert states.adopted + states.superseded + states.refused == 4


def test_a_stop_does_not_wait_for_weights(settings: WorkerSettings) -> None:
    with labelled(settings, Labelled()) as b:
        eventually(lambda: b.order().report.active_step == 0)
        began = time.monotonic()
        b.worker.stop()

        assert time.monotonic() - began < 10
        assert not [t for t in threading.enumerate() if t.name == "w0 weights"]
