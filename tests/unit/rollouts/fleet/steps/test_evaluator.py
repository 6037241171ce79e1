"""Evaluations of a step policy: one round, on a schedule, and by command."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_platform import SmallPlatform, running
from worker_bench import bench

from rolldeck import safetensors
from rolldeck.cli import main
from rolldeck.wire import EpisodeWindow
from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.networks import MlpPolicy, TorchMlp
from rollouts.fleet.policies.policy_protocol import Policy, WeightsDoNotFit
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.evaluator import EvaluationFailed, EvaluationRound, Evaluator
from rollouts.fleet.weights.records import WeightsRecord
from tests.waiting import eventually

MakeSettings = Callable[..., FleetSettings]
MakeWorkerSettings = Callable[..., WorkerSettings]
EVERY_2 = {"every_train_steps": 2, "episodes": 5, "envs": 2}
CONFIG = '{"policy": {"hidden_sizes": [8]}}'


def initial_weights(units: int = 8) -> WeightsRecord:
    import torch

    torch.manual_seed(3)
    state = MlpPolicy(4, 2, [units]).state_dict()
    tensors = {name: value.numpy() for name, value in state.items()}
    return WeightsRecord(epoch=1, step=7, tensors=tensors)


def make_round(
    settings: FleetSettings, *, at: WeightsRecord | None = None, **options: Any
) -> EvaluationRound:
    config = settings.config

    def policy(observation: Space, action: Space) -> Policy:
        made = make_policy(config.policy, observation, action, seed=5, device="cpu")
        made.is_deterministic = config.evaluation.deterministic
        return made

    return EvaluationRound(config, at or initial_weights(), make_policy=policy, **options)


def test_episodes_of_a_real_environment_are_complete(make_settings: MakeSettings) -> None:
    settings = make_settings(evaluation={"episodes": 7, "envs": 3})

    episodes = make_round(settings).run()

    assert len(episodes) == 7
    assert {(each.mode, each.policy_step, each.environment) for each in episodes} == {
        ("eval", 7, "gymnasium:CartPole-v1")
    }
    # CartPole's return is its length; without a trained policy the pole falls.
    assert all(each.total_return == each.length > 5 for each in episodes)
    assert {each.outcome for each in episodes} <= {"terminated", "truncated"}


def test_rounds_repeat_with_deterministic_actions(make_settings: MakeSettings) -> None:
    settings = make_settings(evaluation={"episodes": 6, "envs": 3})

    one, other = make_round(settings).run(), make_round(settings).run()

    assert one == other
    assert len({each.length for each in one}) > 1


def test_slow_rows_end_their_share_of_the_episodes(make_settings: MakeSettings) -> None:
    settings = make_settings(spec="uneven:any", evaluation={"episodes": 6, "envs": 2})

    episodes = make_round(settings).run()

    assert sorted(each.length for each in episodes) == [3, 3, 3, 30, 30, 30]


@pytest.mark.parametrize(
    ("spec", "kwargs", "reason"),
    [
        ("odd:counting", {"raises_at": 4}, "raised RuntimeError: broken at step 4"),
        ("odd:deadly", {}, "exit code 3"),
        ("gymnasium:Missing-v0", {}, "Missing"),
    ],
)
def test_a_failed_evaluation_has_a_reason(
    make_settings: MakeSettings, spec: str, kwargs: dict[str, Any], reason: str
) -> None:
    with pytest.raises(EvaluationFailed, match=reason):
        make_round(make_settings(spec=spec, kwargs=kwargs)).run()


def test_the_time_of_an_evaluation_is_limited(make_settings: MakeSettings) -> None:
    endless = {"spec": "odd:counting", "kwargs": {"length": 10**9}}
    settings = make_settings(**endless, evaluation={"timeout_seconds": 2.0})

    with pytest.raises(EvaluationFailed, match="0 of 20 episodes ended within 2 s"):
        make_round(settings).run()


def test_weights_of_another_shape_are_refused(make_settings: MakeSettings) -> None:
    with pytest.raises(WeightsDoNotFit, match="names or shapes differ"):
        make_round(make_settings(), at=initial_weights(units=16)).run()


def test_a_stopped_round_has_no_result(make_settings: MakeSettings) -> None:
    with pytest.raises(EvaluationFailed, match="stopped"):
        make_round(make_settings(), is_stopped=lambda: True).run()


def evaluations(platform: SmallPlatform) -> list[EpisodeWindow]:
    windows = [window for report in platform.reports for window in report.episodes]
    return [window for window in windows if window.mode == "eval"]


def test_a_fleet_evaluates_on_schedule(make_settings: Callable[..., FleetSettings]) -> None:
    with running(make_settings, num_workers=2, evaluation=EVERY_2) as platform:
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
    make_worker_settings: MakeWorkerSettings,
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

        module = MlpPolicy(4, 2, [8])
        made = Hanging(module, observation=observation, action=action, seed=1, device="cpu")
        self.made.append(made)
        return made


def test_a_policy_that_hangs_in_an_evaluation_is_an_event_and_rollouts_continue(
    make_worker_settings: MakeWorkerSettings,
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
    make_worker_settings: MakeWorkerSettings, is_hanging: bool
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


def test_a_paused_worker_begins_no_evaluation(make_worker_settings: MakeWorkerSettings) -> None:
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


def test_only_worker_0_evaluates(make_worker_settings: MakeWorkerSettings) -> None:
    settings = make_worker_settings(evaluation=EVERY_2)

    assert Evaluator.is_needed(settings)
    assert not Evaluator.is_needed(msgspec.structs.replace(settings, index=1))
    assert not Evaluator.is_needed(make_worker_settings())


@pytest.fixture
def weights(tmp_path: Path) -> str:
    state = MlpPolicy(4, 2, [8]).state_dict()
    path = tmp_path / "weights.safetensors"
    path.write_bytes(safetensors.encode({n: value.numpy() for n, value in state.items()}))
    return str(path)


def test_weights_are_evaluated(weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["policy", "--weights", weights, "--config", CONFIG, "--episodes", "3"]

    assert main(["evaluate", *given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["environment"], found["count"]) == ("gymnasium:CartPole-v1", 3)
    assert found["return_mean"] == found["length_mean"] > 5
    assert main(["evaluate", *given]) == 0
    assert "return_mean" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--config", CONFIG, "--episodes", "0"], 2, "evaluation.episodes"),
        (["--config", "missing.json"], 2, "missing.json"),
        (["--config", "{broken"], 2, "--config is not JSON"),
        (["--preset", "curriculum"], 2, "language: a language run has no step environment"),
        (["--config", '{"policy": {"hidden_sizes": [9]}}'], 1, "names or shapes differ"),
        (["--config", CONFIG, "--environment", "gymnasium:Missing-v0"], 1, "Missing"),
    ],
)
def test_a_failure_has_a_reason(
    weights: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    reason: str,
) -> None:
    assert main(["evaluate", "policy", "--weights", weights, *arguments]) == code
    assert reason in capsys.readouterr().err


def test_a_preset_and_a_configuration_are_merged(
    weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["policy", "--weights", weights, "--preset", "cartpole", "--config", CONFIG]

    assert main(["evaluate", *given, "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 2


def test_a_file_of_another_format_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "policy", "--weights", __file__]) == 2
    assert "test_evaluator.py is not a safetensors file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "give one of --weights, --run"),
        (["--weights", "w.safetensors", "--run", "alpha"], "give one of --weights, --run"),
        (["--run", "alpha", "--config", CONFIG], "--config and --preset need --weights"),
        (["--run", "alpha", "--preset", "cartpole"], "--config and --preset need --weights"),
        (["--weights", "w.safetensors", "--version", "3"], "need --run"),
        (["--weights", "w.safetensors", "--weights-directory", "w"], "need --run"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert main(["evaluate", "policy", *arguments]) == 2
    assert reason in capsys.readouterr().err
