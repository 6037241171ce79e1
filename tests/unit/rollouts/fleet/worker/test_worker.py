"""A rollout worker keeps its environments running through all their failures."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import psutil
import pytest
from worker_bench import Bench, bench

from buffer.ingest.rules.fragments import check, real_steps
from rolldeck.fleet_wire import episode_id, slot_name
from rolldeck.wire import Fragment, unpack_array
from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.policies.policy_protocol import Decision, Policy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.steps import step_worker
from tests.waiting import eventually, stays

MakeSettings = Callable[..., WorkerSettings]
SLOWER = 3
"""Factor by which a busy machine may be slower."""


@pytest.fixture
def settings(make_worker_settings: MakeSettings) -> WorkerSettings:
    return make_worker_settings(spec="odd:counting")


def test_a_worker_steps_all_slots_and_cuts_their_fragments(settings: WorkerSettings) -> None:
    with bench(settings) as b:
        eventually(lambda: len({f.slot for f in b.fragments}) == 4 and len(b.fragments) > 40)

    by_slot: dict[str, list[int]] = {}
    for fragment in b.fragments:
        by_slot.setdefault(fragment.slot, []).append(fragment.number)
    assert len(by_slot) == 4
    assert all(numbers == list(range(len(numbers))) for numbers in by_slot.values())
    assert {fragment.epoch for fragment in b.fragments} == {1}


def test_fragments_of_a_real_environment_are_contiguous(make_worker_settings: MakeSettings) -> None:
    with bench(make_worker_settings()) as b:
        eventually(lambda: len(b.fragments) > 40)

    mine = [f for f in b.fragments if f.slot == b.fragments[0].slot]
    for before, after in pairwise(mine):
        assert after.contiguous
        boundary = unpack_array(before.arrays["next_obs"])
        assert np.array_equal(boundary, unpack_array(after.arrays["obs"])[0])


def returns_of_fragments(fragments: list[Fragment]) -> dict[str, float]:
    """Return the returns of the episodes that end in a fragment."""
    returns: dict[str, float] = {}
    ended: set[str] = set()
    for fragment in fragments:
        index, reward = (unpack_array(fragment.arrays[n]) for n in ("episode_index", "reward"))
        ends = unpack_array(fragment.arrays["terminated"])
        for place, episode in enumerate(fragment.episode_ids):
            returns[episode] = returns.get(episode, 0.0) + float(reward[index == place].sum())
            ended |= {episode} if ends[index == place].any() else set()
    return {episode: returns[episode] for episode in ended}


def test_reports_name_episodes_as_fragments_do(make_worker_settings: MakeSettings) -> None:
    named: dict[str, float] = {}
    with bench(make_worker_settings()) as b:

        def both() -> set[str]:
            for window in b.order().episodes:
                listed = zip(window.returns, window.slots, window.numbers, strict=False)
                for value, slot, number in listed:
                    about = {"worker": window.worker, "incarnation": window.incarnation}
                    named[episode_id(slot_name(slot=slot, **about), number)] = value
            return set(named) & set(returns_of_fragments(list(b.fragments)))

        eventually(lambda: len(both()) > 10)
    stored = returns_of_fragments(b.fragments)
    both_kinds = set(named) & set(stored)
    assert {e: named[e] for e in both_kinds} == {e: stored[e] for e in both_kinds}


def test_no_steps_are_sampled_before_the_first_weights(settings: WorkerSettings) -> None:
    b = Bench(settings)
    try:
        b.order(credits=100)
        eventually(lambda: b.slots() == ["waiting"] * 4)

        stays(lambda: b.steps() == 0, 0.2)
        assert b.order().report.reason == "waiting for the trainer's weights"
    finally:
        b.worker.stop()


def test_a_worker_starts_until_it_has_imported_torch(
    settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_imported = threading.Event()
    monkeypatch.setattr(step_worker, "_import_torch", lambda: is_imported.wait(60))
    with bench(settings) as b:
        try:
            eventually(lambda: b.worker._worker is not None)
            assert b.order().report.state == "starting"
        finally:
            is_imported.set()
        eventually(lambda: b.order().report.state == "running")


def test_slots_without_a_credit_keep_their_observation(settings: WorkerSettings) -> None:
    with bench(settings, room=3) as b:
        eventually(lambda: len(b.fragments) == 3)

        stays(lambda: b.steps() == 3 * 8, 0.2)
        assert b.order().outstanding == 0

        b.order(credits=2)
        eventually(lambda: len(b.fragments) == 5)


def test_a_pause_takes_effect_within_one_step_and_a_resume_continues(
    make_worker_settings: MakeSettings,
) -> None:
    slow = make_worker_settings(spec="odd:counting", kwargs={"seconds": 0.02})
    with bench(slow) as b:
        eventually(lambda: b.steps() > 8)
        before = b.order("paused").report.env_steps
        # Without the pause, each of the four slots makes about five steps in this time.
        stays(lambda: b.order("paused").report.env_steps - before <= 4, 0.2)
        after = b.order("paused").report.env_steps

        assert b.order("paused").report.state == "paused"
        eventually(lambda: b.steps() > after)


def test_a_drain_flushes_every_slot_and_starts_no_episode(
    make_worker_settings: MakeSettings,
) -> None:
    settings = make_worker_settings(
        spec="odd:counting", kwargs={"seconds": 0.005, "length": 1000}, fragment_length=500
    )
    with bench(settings) as b:
        # Processes start one after the other.
        eventually(lambda: b.steps() > 40 and set(b.slots()) == {"stepping"})
        eventually(lambda: b.order("draining").is_drained)
        steps = b.order("draining").report.env_steps
        stays(lambda: b.order("draining").report.env_steps == steps, 0.1)

    assert len(b.fragments) == 4
    assert {fragment.steps for fragment in b.fragments} == {500}
    for fragment in b.fragments:
        check(fragment)
    assert sum(real_steps(fragment) for fragment in b.fragments) == steps
    assert b.aborted == 4
    assert b.order("draining").report.dropped_steps == {}


def test_a_drain_flushes_the_slot_of_a_lost_environment(make_worker_settings: MakeSettings) -> None:
    settings = make_worker_settings(
        spec="odd:counting", kwargs={"seconds": 0.005, "length": 1000}, fragment_length=500
    )
    with bench(settings) as b:
        eventually(lambda: b.steps() > 40)
        for pid in set(b.pids()):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: b.order("draining").is_drained)

    assert sum(map(real_steps, b.fragments)) == b.order("draining").report.env_steps


@dataclass(frozen=True)
class Ends:
    """End of an environment, and what of it is stored."""

    how: str
    at: int = 3
    """Step that does not return."""
    in_worker: bool = False
    event: str = ""
    """Text of its event."""
    environment: dict[str, Any] = field(default_factory=dict)


ENDS = {
    "raises": Ends("raise", event="broken at step 3"),
    "raises, in the worker": Ends("raise", in_worker=True, event="broken at step 3"),
    "raises in its first step": Ends("raise", at=1, event="broken at step 1"),
    "exits": Ends("exit", event="exit code 3"),
    "exits in its first step": Ends("exit", at=1, event="exit code 3"),
    "faults": Ends("fault", event="signal 11"),
    "hangs": Ends("hang", event="did not answer", environment={"hung_after_seconds": 4}),
    "returns NaN": Ends("nan", event="odd:ending, step 3: obs[0] is nan; it must be finite"),
    "returns an array as its first reward": Ends(
        "reward", at=1, event="odd:ending, step 1: reward has shape [2]; it must be a number"
    ),
    "raises a text with a lone surrogate": Ends("bytes", event="RuntimeError: caf\ufffd.txt"),
    "raises in a reset": Ends("reset", event="no further episode"),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_a_fragment_has_only_steps_that_the_environment_made(
    make_worker_settings: MakeSettings, case: Ends
) -> None:
    settings = make_worker_settings(
        spec="odd:ending",
        kwargs={"how": case.how, "at": case.at},
        environment=case.environment,
        envs_in_worker=case.in_worker,
        fragment_length=3,
    )
    with bench(settings) as b:
        eventually(lambda: b.order() and len(b.reported) > 1, 60)
        eventually(lambda: b.order("draining").is_drained, 60)
        report = b.order("draining").report

    texts = [f"{event.message} {event.details.get('error')}" for event in b.reported]
    assert any(case.event in text for text in texts), texts
    assert sum(map(real_steps, b.fragments)) == report.env_steps
    assert report.dropped_steps == {}
    if case.how == "nan":  # the environment works between its invalid values
        assert b.events.count("slot_failed") == 0
        assert b.events.count("slot_restarted") <= 4
    assert bool(b.fragments) == (case.at > 1) == bool(report.env_steps)
    assert case.at > 1 or b.aborted == 0
    finals = 0
    for fragment in b.fragments:
        check(fragment)
        real = slice(real_steps(fragment))
        found = {name: unpack_array(array) for name, array in fragment.arrays.items()}
        steps = found["obs"][real, 0]
        assert found["reward"][real].tolist() == (steps + 1).tolist()
        ended = np.flatnonzero(found["terminated"][real] | found["truncated"][real])
        assert found.get("final_step", np.zeros(0)).tolist() == ended.tolist()
        # The other environment of a lost process may be at an earlier step.
        assert all(steps[ended] <= case.at - 2)
        assert not len(ended) or found["final_obs"][:, 0].tolist() == (steps[ended] + 1).tolist()
        assert found["terminated"].sum() == (len(ended) if case.how == "reset" else 0)
        finals += len(ended)
    assert case.at == 1 or finals


def test_an_invalid_action_ends_the_episode_of_its_slot_only(
    make_worker_settings: MakeSettings,
) -> None:
    settings = make_worker_settings(spec="gymnasium:Pendulum-v1")

    def make(observation: Space, action: Space) -> Policy:
        policy = make_policy(settings.fleet.config.policy, observation, action, seed=1)
        act = policy.act

        def act_or_fail(obs: Any, state: Any, first: Any) -> Decision:
            decision = act(obs, state, first)
            decision.actions[(obs[:, 0] > 0.5) & ~first] = np.nan
            return decision

        policy.act = act_or_fail  # type: ignore[method-assign]
        return policy

    b = Bench(settings, policy_factory=make)
    try:
        module = MlpPolicy(3, 1, [8], is_continuous=True)
        b.publish_tensors(0, {name: value.numpy() for name, value in module.state_dict().items()})
        b.order(credits=1000)
        eventually(lambda: b.order() and b.reported and len(b.fragments) > 4, 60)
    finally:
        b.worker.stop()

    assert "gymnasium:Pendulum-v1: action[0] is nan; it must be finite" in b.reported[0].message
    for fragment in b.fragments:
        assert np.isfinite(unpack_array(fragment.arrays["action"])).all()


def test_an_immediately_stopped_worker_counts_its_unsent_steps(
    make_worker_settings: MakeSettings,
) -> None:
    settings = make_worker_settings(
        spec="odd:counting", kwargs={"seconds": 0.005}, fragment_length=500
    )
    with bench(settings) as b:
        eventually(lambda: b.steps() > 40)
        b.worker.stop()
        report = b.order().report

    assert not b.fragments
    assert report.dropped_steps == {"stopped": report.env_steps}


def test_a_killed_env_process_is_restarted_within_five_seconds(
    make_worker_settings: MakeSettings,
) -> None:
    # With endless episodes, both slots are in an episode when they are killed.
    settings = make_worker_settings(spec="odd:counting", kwargs={"length": 1_000_000})
    with bench(settings) as b:
        # The other process may start much earlier than this one.
        eventually(lambda: {"w0-0", "w0-1"} <= {f.slot.partition("@")[0] for f in b.fragments})
        victim = b.pids()[0]
        os.kill(victim, signal.SIGKILL)
        began = time.monotonic()
        eventually(lambda: b.pids()[0] not in {victim, 0} and b.slots()[0] != "restarting")
        sent = len(b.fragments)
        eventually(lambda: any(f.slot.startswith("w0-0@") for f in b.fragments[sent:]))
        seconds = time.monotonic() - began
        b.order()

    assert seconds < 5 * SLOWER
    assert b.events.count("slot_restarted") == 1
    assert b.aborted == 2


def test_other_processes_continue_while_one_is_restarted(
    make_worker_settings: MakeSettings,
) -> None:
    settings = make_worker_settings(spec="odd:counting", envs_per_process=1)
    with bench(settings) as b:
        eventually(lambda: len(b.fragments) > 8)
        pids = b.pids()
        os.kill(pids[0], signal.SIGSTOP)
        try:
            steps = b.steps()
            eventually(lambda: b.steps() > steps + 100, 60.0)
        finally:
            os.kill(pids[0], signal.SIGCONT)


def test_an_environment_that_always_raises_is_abandoned_and_the_others_continue(
    make_worker_settings: MakeSettings,
) -> None:
    settings = make_worker_settings(spec="one_odd:x", envs_per_process=4)
    with bench(settings) as b:
        eventually(lambda: b.slots()[0] == "failed", 90.0)
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent + 10)
        report = b.order().report

    assert [slot.state == "failed" for slot in report.slots] == [True, False, False, False]
    assert "broken at step 3" in report.slots[0].error
    assert b.events.count("slot_restarted") == 5
    assert b.events.count("slot_failed") == 1
    assert b.aborted == 6


def test_a_worker_without_a_working_slot_has_failed(make_worker_settings: MakeSettings) -> None:
    with bench(make_worker_settings(spec="unheard:of")) as b:
        eventually(lambda: b.order().report.state == "failed", 90.0)

        state = b.order()

    assert state.cannot_recover
    assert state.report.reason.startswith("unheard:of never completed a step: ")
    assert "UnknownEnvironment" in state.report.reason
    assert "UnknownEnvironment" in state.report.slots[0].error
    assert b.events.count("environment_refused") == 1


def test_a_process_is_replaced_between_episodes_after_its_restart_interval(
    make_worker_settings: MakeSettings,
) -> None:
    settings = make_worker_settings(
        spec="odd:counting", environment={"restart_interval_seconds": 0.5}
    )
    with bench(settings) as b:
        eventually(lambda: len(b.fragments) > 0)
        before = b.pids()
        eventually(lambda: all(p not in {*before, 0} for p in b.pids()), 60.0)
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent + 8)

    assert b.aborted == 0
    assert "slot_restarted" not in b.events


def cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(float(each.user + each.system) for each in times)


def test_an_idle_worker_uses_less_than_five_percent_of_a_core(settings: WorkerSettings) -> None:
    with bench(settings, room=0) as b:
        eventually(lambda: b.slots() == ["waiting"] * 4)
        processes = [psutil.Process(pid) for pid in {os.getpid(), *b.pids()}]
        began = cpu_seconds(processes)
        time.sleep(2.0)
        share = (cpu_seconds(processes) - began) / 2.0

    assert len(processes) == 3
    assert share < 0.05, share


def test_a_new_epoch_drops_partial_fragments_and_waits_for_its_weights(
    make_worker_settings: MakeSettings,
) -> None:
    slow = make_worker_settings(spec="odd:counting", kwargs={"seconds": 0.01})
    with bench(slow) as b:
        eventually(lambda: b.steps() % 8 > 0 and b.steps() > 8)
        b.order(epoch=2, policy_step=-2)
        eventually(
            lambda: (
                b.order(epoch=2, policy_step=-2).report.dropped_steps.get("new_epoch")
                and b.slots(epoch=2, policy_step=-2) == ["waiting"] * 4
            )
        )
        steps = b.order(epoch=2, policy_step=-2).report.env_steps
        stays(lambda: b.order(epoch=2, policy_step=-2).report.env_steps == steps, 0.1)
        waiting = b.order(epoch=2, policy_step=-2).report
        b.publish(0, epoch=2)
        eventually(lambda: b.order(epoch=2) and any(f.epoch == 2 for f in b.fragments))

    assert waiting.env_steps == steps
    assert waiting.dropped_steps["new_epoch"] > 0


def test_stale_steps_are_dropped_and_counted(make_worker_settings: MakeSettings) -> None:
    slow = make_worker_settings(
        spec="odd:counting", kwargs={"seconds": 0.02}, fragment_length=1000, max_staleness=1
    )
    with bench(slow) as b:
        eventually(lambda: b.steps() > 8)
        fresh = b.order(policy_step=1).report.dropped_steps
        eventually(lambda: b.order(policy_step=2).report.dropped_steps.get("stale_version"))

    assert fresh == {}


def test_a_stopped_worker_leaves_no_process(settings: WorkerSettings) -> None:
    with bench(settings) as b:
        eventually(lambda: len(b.fragments) > 0)
        pids = set(b.pids())

    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
