"""Worker 0 of a fleet evaluates versions of the weights next to its rollouts."""

import re
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from small_platform import SmallPlatform, served
from worker_bench import bench

from rolldeck.wire import EpisodeWindow
from rollouts.fleet.manager.local_fleet import LocalFleet
from rollouts.fleet.policies.networks import TorchMlp
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.evaluator import Evaluator

Eventually = Callable[..., None]
MakeSettings = Callable[..., WorkerSettings]
EVERY_2 = {"every_train_steps": 2, "episodes": 5, "envs": 2}


def evaluations(platform: SmallPlatform) -> list[EpisodeWindow]:
    windows = [window for report in platform.reports for window in report.episodes]
    return [window for window in windows if window.mode == "eval"]


def test_a_fleet_evaluates_on_schedule(
    make_settings: Callable[..., FleetSettings], eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with (
        served(platform) as url,
        LocalFleet(make_settings(url=url, num_workers=2, evaluation=EVERY_2)),
    ):
        eventually(lambda: len(evaluations(platform)) == 1, 60.0)
        platform.publish(1)
        eventually(lambda: any(f.version_max == 1 for f in platform.fragments.values()))
        platform.publish(2)
        eventually(lambda: len(evaluations(platform)) == 2, 60.0)
        eventually(lambda: any(f.version_max == 2 for f in platform.fragments.values()))

    found = evaluations(platform)
    assert [(window.worker, window.count, window.policy_step) for window in found] == [
        (0, 5, 0),
        (0, 5, 2),
    ]
    assert all(window.return_mean == window.length_mean for window in found)
    # Every fragment is of a training slot.
    assert {f.slot.partition("@")[0] for f in platform.fragments.values()} == {
        f"w{worker}-{slot}" for worker in range(2) for slot in range(4)
    }


def test_a_failed_evaluation_is_an_event_and_rollouts_continue(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    settings = make_worker_settings(
        spec="odd:counting",
        kwargs={"length": 10, "seconds": 0.01},
        evaluation={**EVERY_2, "timeout_seconds": 0.05},
    )
    with bench(settings) as b:
        eventually(lambda: b.order() and "evaluation_failed" in b.events, 60.0)
        before = b.steps()
        eventually(lambda: b.steps() > before + 20)
        report = b.order().report

    [event] = [event for event in b.reported if event.kind == "evaluation_failed"]
    assert event.level == "error"
    assert event.message.startswith("The evaluation of version 0 failed: 0 of 5 episodes ended")
    assert event.details["version"] == [1, 0]
    assert report.state == "running"


class HangingPolicies:
    """Factory of policies that do not return in evaluations until they are released."""

    def __init__(self) -> None:
        self.made: list[TorchMlp] = []
        self.is_hanging = threading.Event()
        self.is_released = threading.Event()

    def __call__(self, observation: Space, action: Space) -> TorchMlp:
        factory = self

        class Hanging(TorchMlp):
            def act(self, *arguments: Any) -> Any:
                if "evaluation" in threading.current_thread().name:
                    factory.is_hanging.set()
                    factory.is_released.wait()
                return super().act(*arguments)

        made = Hanging(observation, action, hidden_sizes=[8], seed=1, device="cpu")
        self.made.append(made)
        return made


def test_a_policy_that_hangs_in_an_evaluation_is_an_event_and_rollouts_continue(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    settings = make_worker_settings(
        spec="odd:counting",
        kwargs={"length": 10, "seconds": 0.01},
        evaluation={**EVERY_2, "timeout_seconds": 10.0},
    )
    policies = HangingPolicies()
    windows: list[EpisodeWindow] = []
    with bench(settings, policy_factory=policies) as b:
        eventually(lambda: b.order() and policies.is_hanging.is_set(), 60.0)
        eventually(lambda: b.order() and "evaluation_failed" in b.events, 60.0)
        before = b.steps()
        eventually(lambda: b.steps() > before + 20)
        b.publish(2)
        eventually(lambda: b.steps() and b.events.count("evaluation_failed") == 2)
        report = b.order(policy_step=2).report
        assert (report.state, report.active_step) == ("running", 2)
        assert len(policies.made) == 2
        policies.is_released.set()
        b.publish(4)
        eventually(lambda: windows.extend(b.order().episodes) or _evaluated(windows), 60.0)

    first, second = [event for event in b.reported if event.kind == "evaluation_failed"]
    assert re.fullmatch(
        r"The evaluation of version 0 failed: the policy did not return for \d+ s; "
        r"the limit is 10 s \(evaluation\.timeout_seconds\)",
        first.message,
    )
    assert (first.level, first.details["version"]) == ("error", [1, 0])
    assert second.message == (
        "The evaluation of version 2 failed: the policy has not returned from an earlier evaluation"
    )
    # Another policy replaces the one that hung.
    assert _evaluated(windows) == [4]
    assert len(policies.made) == 3


@pytest.mark.parametrize("is_hanging", [False, True])
def test_an_evaluation_that_its_worker_interrupts_is_an_event_of_the_final_state(
    make_worker_settings: MakeSettings, eventually: Eventually, is_hanging: bool
) -> None:
    settings = make_worker_settings(
        spec="odd:counting", kwargs={"length": 10**9}, evaluation=EVERY_2
    )
    policies = HangingPolicies()
    if not is_hanging:
        policies.is_released.set()
    with bench(settings, policy_factory=policies) as b:
        eventually(lambda: b.order() and policies.is_hanging.is_set(), 60.0)
        assert b.order().evaluation == (1, 0)
        final = b.worker.stop()
        policies.is_released.set()

    [event] = [event for event in final.events if event.kind == "evaluation_failed"]
    assert event.message == (
        "The evaluation of version 0 failed: worker 0 ended during the evaluation"
    )
    assert event.level == "warning"
    assert final.evaluation is None


def test_a_paused_worker_begins_no_evaluation(
    make_worker_settings: MakeSettings, eventually: Eventually
) -> None:
    windows: list[EpisodeWindow] = []
    with bench(make_worker_settings(evaluation=EVERY_2)) as b:
        eventually(lambda: windows.extend(b.order().episodes) or _evaluated(windows) == [0], 60.0)
        b.order("paused")
        b.publish(5)
        eventually(lambda: b.order("paused").report.staged_step == 5)
        with pytest.raises(AssertionError):
            eventually(
                lambda: windows.extend(b.order("paused").episodes) or len(_evaluated(windows)) > 1,
                2.0,
            )
        eventually(lambda: windows.extend(b.order().episodes) or _evaluated(windows) == [0, 5])


def _evaluated(windows: list[EpisodeWindow]) -> list[int]:
    return [window.policy_step for window in windows if window.mode == "eval"]


def test_only_worker_0_evaluates(make_worker_settings: MakeSettings) -> None:
    settings = make_worker_settings(evaluation=EVERY_2)

    assert Evaluator.is_needed(settings)
    assert not Evaluator.is_needed(msgspec.structs.replace(settings, index=1))
    assert not Evaluator.is_needed(make_worker_settings())
