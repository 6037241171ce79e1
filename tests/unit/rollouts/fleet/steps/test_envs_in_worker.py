"""Environments in the worker's own process are supervised like all others."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import odd_environments
import pytest
from worker_bench import bench

from rolldeck.wire import unpack_array
from rollouts.diagnosis.rules.problems import causes
from rollouts.fleet.process.settings import WorkerSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., WorkerSettings]


@pytest.mark.parametrize("kwargs", [{}, {"sutton_barto_reward": True}], ids=["vector", "rows"])
def test_fragments_of_envs_in_the_worker_are_contiguous(
    make_worker_settings: MakeSettings, eventually: Eventually, kwargs: dict[str, bool]
) -> None:
    settings = make_worker_settings(envs_in_worker=True, kwargs=kwargs)
    with bench(settings) as b:
        eventually(lambda: len(b.fragments) > 40)
        assert set(b.pids()) == {os.getpid()}
        stages = b.order().report.stages

    assert {"recv", "env_step", "infer"} <= stages.keys()
    by_slot = {f.slot: [g for g in b.fragments if g.slot == f.slot] for f in b.fragments}
    assert len(by_slot) == 4
    for mine in by_slot.values():
        for before, after in pairwise(mine):
            assert after.contiguous
            boundary = unpack_array(before.arrays["next_obs"])
            assert np.array_equal(boundary, unpack_array(after.arrays["obs"])[0])


def test_an_environment_that_raises_is_rebuilt_and_the_others_continue(
    make_worker_settings: MakeSettings, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(odd_environments, "_made", 0)
    settings = make_worker_settings(spec="one_odd:x", envs_in_worker=True)
    with bench(settings) as b:
        eventually(lambda: b.slots()[0] == "failed", 60.0)
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent + 10)

    assert b.events.count("slot_restarted") == 5
    assert b.events.count("slot_failed") == 1
    assert b.aborted == 6
    lost = [(event.message, 1) for event in b.reported if event.kind.startswith("slot_")]
    assert causes(lost, environment="e") == ["e: RuntimeError: broken at step 3 (6 times)"]


def test_an_unknown_kind_is_refused_as_by_a_process(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    with bench(make_worker_settings(spec="unheard:of", envs_in_worker=True)) as b:
        eventually(lambda: b.order().report.state == "failed", 60.0)
        assert "UnknownEnvironment" in b.order().report.slots[0].error


def test_all_environments_are_rebuilt_between_episodes_after_the_restart_interval(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    settings = make_worker_settings(
        spec="odd:counting",
        environment={"restart_interval_seconds": 0.5},
        envs_in_worker=True,
    )
    with bench(settings) as b:
        eventually(lambda: all(slot.restarts for slot in b.order().report.slots))
        sent = len(b.fragments)
        eventually(lambda: len(b.fragments) > sent + 8)

    assert b.aborted == 0
    assert "slot_restarted" not in b.events


def test_an_environment_that_hangs_fails_its_worker(
    make_worker_settings: MakeSettings, eventually: Eventually, tmp_path: Path
) -> None:
    settings = make_worker_settings(
        spec="one_hangs:x",
        kwargs={"marker": str(tmp_path / "hung")},
        environment={"hung_after_seconds": 1.0},
        envs_in_worker=True,
    )
    with bench(settings) as b:
        eventually(lambda: b.order().report.state == "failed", 60.0)

        assert (
            b.order().report.reason
            == "an environment in the worker's process did not return for 1 s"
        )
