"""A simulated fleet reports like a real one."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from small_platform import SmallPlatform, served

from buffer.ingest.rules.fragments import check
from rolldeck.wire import Fragment, FragmentReceipt
from rollouts.fleet.manager.manager import RolloutManager
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.simulated.output import SimulatedOutput
from rollouts.fleet.simulated.sampling import (
    SimulatedEnvironment,
    SimulatedFailure,
    SimulatedInference,
)
from rollouts.fleet.simulated.workers import SimulatedWorker, SimulatedWorkers
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.messages import WorkerCommand
from runs.config.rules.simulated_fleet import Simulation

WEIGHTS = WeightsRecord(epoch=1, step=0, tensors={})
CHOICE = Space(kind="discrete", shape=(), dtype="int64", choices=2)
RUNNING = WorkerCommand(desired="running", epoch=1, policy_step=0, is_reporting=True)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def make_one(make_worker_settings: Callable[..., WorkerSettings]) -> Callable[..., Any]:
    def make(**simulation: Any) -> tuple[SimulatedWorker, Clock]:
        clock = Clock()
        settings = make_worker_settings(envs_per_worker=4)
        worker = SimulatedWorker(settings, Simulation(**simulation), clock=clock)
        return worker, clock

    return make


def test_a_worker_steps_at_the_configured_rate(make_one: Callable[..., Any]) -> None:
    worker, clock = make_one(step_seconds=0.1, episode_length=20)
    worker.update_weights(WEIGHTS)
    worker.heartbeat(RUNNING)
    episodes = 0
    for _ in range(100):
        clock.now += 1.0
        state = worker.heartbeat(RUNNING)
        episodes += sum(window.count for window in state.episodes)

    assert 3500 < state.report.env_steps < 4500  # four slots, ten steps a second, 100 seconds
    assert episodes == state.report.env_steps // 20 == sum(s.episodes for s in state.report.slots)
    assert (state.report.state, len(state.report.slots)) == ("running", 4)


def test_no_steps_happen_without_weights_or_in_a_pause(make_one: Callable[..., Any]) -> None:
    worker, clock = make_one()
    for command, has_weights in ((RUNNING, False), (WorkerCommand(desired="paused"), True)):
        if has_weights:
            worker.update_weights(WEIGHTS)
        worker.heartbeat(command)
        clock.now += 10.0
        assert worker.heartbeat(command).report.env_steps == 0


def test_a_worker_dies_after_its_lifetime(make_one: Callable[..., Any]) -> None:
    immortal, clock = make_one()
    mortal, own_clock = make_one(failures_per_hour=3600.0)
    clock.now = own_clock.now = 1000.0

    assert immortal.heartbeat(RUNNING).report.state == "running"
    with pytest.raises(SimulatedFailure):
        mortal.heartbeat(RUNNING)


def test_inference_and_environments_fail_at_their_rates() -> None:
    policy = SimulatedInference(CHOICE, seed=1, failure_rate=0.5)
    environment = SimulatedEnvironment(failure_rate=0.5)
    environment.reset(seed=1)
    obs, first = np.zeros((3, 4), np.float32), np.zeros(3, np.bool_)

    failed = [0, 0]
    for _ in range(200):
        for number, work in enumerate(
            (lambda: policy.act(obs, {}, first), lambda: environment.step(0))
        ):
            try:
                work()
            except SimulatedFailure:
                failed[number] += 1
    assert all(60 < count < 140 for count in failed)


def test_an_inference_takes_the_configured_time() -> None:
    policy = SimulatedInference(CHOICE, seed=1, act_seconds=0.02, spread=0.1)
    began = time.monotonic()
    for _ in range(5):
        decision = policy.act(np.zeros((3, 4), np.float32), {}, np.zeros(3, np.bool_))

    assert time.monotonic() - began > 0.05
    assert decision.actions.shape == decision.logprobs.shape == decision.values.shape == (3,)
    assert set(decision.actions.tolist()) <= {0, 1}


def test_a_real_worker_cuts_fragments_of_a_simulated_environment(
    make_worker_settings: Callable[..., WorkerSettings],
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., None],
) -> None:
    from worker_bench import bench

    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_MODULES", "rollouts.fleet.simulated.sampling")
    settings = make_worker_settings(
        spec="simulated:any", kwargs={"episode_length": 5, "failure_rate": 0.01}
    )

    def make(_: object, action: Any) -> SimulatedInference:
        return SimulatedInference(action, seed=1)

    with bench(settings, policy_factory=make) as b:
        eventually(lambda: len(b.fragments) > 20 and "slot_restarted" in b.events + _kinds(b))


def test_fragments_are_sent_within_credits_and_rate(
    make_settings: Callable[..., FleetSettings], eventually: Callable[..., None]
) -> None:
    pushed: list[Fragment] = []

    def push(fragments: list[bytes]) -> FragmentReceipt:
        pushed.extend(msgspec.msgpack.decode(fragment, type=Fragment) for fragment in fragments)
        count = len(fragments)
        return FragmentReceipt(accepted=count, duplicates=0, dropped={}, admission_remaining=9)

    fleet, clock = make_settings(envs_per_worker=2, inference_batch_size=2), Clock()
    simulation = Simulation(step_seconds=0.01, fragments_per_second=2.0, episode_length=3)
    output = SimulatedOutput(fleet, simulation, push=push)
    try:
        settings = WorkerSettings(fleet=fleet, index=0, incarnation="1-a-b")
        worker = SimulatedWorker(settings, simulation, clock=clock, output=output)
        worker.update_weights(WeightsRecord(epoch=1, step=4, tensors={}))
        worker.heartbeat(replace(RUNNING, credits=7))
        for _ in range(40):  # four seconds, in each of which 200 steps are made
            clock.now += 0.1
            worker.heartbeat(RUNNING)
        eventually(lambda: len(pushed) >= 7)
        eventually(lambda: worker.heartbeat(RUNNING).accepted == len(pushed))
        state = worker.heartbeat(RUNNING)
    finally:
        output.close()

    assert len(pushed) == 7
    assert (state.unspent, state.outstanding, state.report.fragments_sent) == (0, 0, 7)
    assert [(f.slot[:4], f.number) for f in pushed[:4]] == [
        *(("w0-0", 0), ("w0-1", 0), ("w0-0", 1), ("w0-1", 1))
    ]
    assert {(f.epoch, f.version_min, f.version_max) for f in pushed} == {(1, 4, 4)}
    for fragment in pushed:
        check(fragment)


def test_no_more_fragments_are_sent_than_the_rate_allows(
    make_settings: Callable[..., FleetSettings],
) -> None:
    simulation = Simulation(fragments_per_second=2.0)
    output = SimulatedOutput(make_settings(), simulation, push=lambda _: pytest.fail("pushed"))
    try:
        allowed = sum(output.may_send(tenth / 10) for tenth in range(1001))
    finally:
        output.close()

    assert 198 <= allowed <= 202


def _kinds(b: Any) -> list[str]:
    b.order()
    return list(b.events)


@pytest.mark.parametrize("workers", [50, 2000])
def test_one_process_is_the_fleet_of_thousands_of_workers(
    make_settings: Callable[..., FleetSettings], eventually: Callable[..., None], workers: int
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url:
        settings = make_settings(url=url, num_workers=workers)
        manager = RolloutManager(settings, SimulatedWorkers(Simulation(step_seconds=0.01)))
        try:
            eventually(
                lambda: (
                    [w.state for w in platform.reports[-1].workers].count("running") == workers
                    if platform.reports
                    else False
                ),
                60.0,
            )
            before = platform.reports[-1].sequence
            used, began = time.process_time(), time.monotonic()
            eventually(lambda: platform.reports[-1].sequence > before + 3, 60.0)
            cores = (time.process_time() - used) / (time.monotonic() - began)
            eventually(lambda: all(w.env_steps for w in platform.reports[-1].workers), 60.0)
        finally:
            manager.shutdown()

    assert len({w.index for w in platform.reports[-1].workers}) == workers
    # Manager and platform share this process and its GIL; the test only checks for progress.
    assert cores <= 1.2
