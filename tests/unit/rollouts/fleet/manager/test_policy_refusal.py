"""A policy or an environment that cannot work fails the run with one event per worker."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from small_platform import SmallPlatform, served
from worker_bench import bench

from rollouts.fleet.manager.local_fleet import LocalFleet
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., WorkerSettings]
MakeFleetSettings = Callable[..., FleetSettings]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(
            {"policy": {"kind": "cnn"}},
            "policy.kind: cnn needs images: no uint8 image in",
            id="cnn",
        ),
        pytest.param(
            {"device": "cuda", "num_gpus_per_worker": 1},
            "fleet.device: cuda is configured, but torch finds no GPU",
            id="cuda",
        ),
    ],
)
def test_a_worker_names_the_invalid_field_of_its_policy(
    make_worker_settings: MakeSettings,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    reason: str,
) -> None:
    # On machines with a GPU, torch must not find it, and must check again.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    with bench(make_worker_settings(**changes)) as b:
        eventually(lambda: b.order().report.state == "failed", 60.0)
        report = b.order().report

    assert reason in report.reason
    assert b.events.count("policy_refused") == 1
    assert report.env_steps == 0


def test_a_fleet_with_an_invalid_policy_fails_at_once_permanently(
    make_settings: MakeFleetSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    settings = make_settings(policy={"kind": "cnn"}, num_workers=2)
    with (
        served(platform) as url,
        LocalFleet(msgspec.structs.replace(settings, platform_url=url)),
    ):
        eventually(lambda: platform.reports and platform.reports[-1].state == "failed", 60.0)
        report = platform.reports[-1]
        eventually(lambda: "worker_failed" in platform.events())

    assert report.is_final
    assert report.reason.startswith("2 of 2 workers were given up: policy.kind: cnn needs images")
    assert [worker.restarts for worker in report.workers] == [1, 1]
    assert "worker_respawned" not in platform.events()


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("raise", "RuntimeError: broken at step 1"),
        ("exit", "ended with exit code 3"),
        ("nan", "odd:ending, step 1: obs[0] is nan"),
    ],
)
def test_a_fleet_whose_environment_never_makes_a_step_fails_at_once_permanently(
    make_settings: MakeFleetSettings, eventually: Eventually, how: str, error: str
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    settings = make_settings(spec="odd:ending", kwargs={"how": how, "at": 1}, num_workers=2)
    with (
        served(platform) as url,
        LocalFleet(msgspec.structs.replace(settings, platform_url=url)),
    ):
        eventually(lambda: platform.reports and platform.reports[-1].state == "failed", 60.0)
        report = platform.reports[-1]
        eventually(lambda: "worker_failed" in platform.events())

    assert report.is_final
    assert "workers were given up: odd:ending never completed a step: " in report.reason
    assert error in report.reason
    assert platform.events().count("environment_refused") == 2
    assert "worker_respawned" not in platform.events()
    assert not platform.fragments


def test_a_fleet_reports_weights_that_do_not_fit_and_loads_the_next_valid_ones(
    make_settings: MakeFleetSettings, eventually: Eventually
) -> None:
    platform = SmallPlatform()
    platform.publish(0)
    with served(platform) as url, LocalFleet(make_settings(url=url, num_workers=2)):
        eventually(lambda: len(platform.fragments) > 20)
        platform.publish(1, module=MlpPolicy(4, 2, [16]))
        eventually(lambda: platform.events().count("weights_refused") == 2)
        eventually(lambda: platform.reports[-1].reason)
        refused = platform.reports[-1]
        platform.publish(2)
        eventually(lambda: [w.active_step for w in platform.reports[-1].workers] == [2, 2])
        eventually(lambda: not platform.reports[-1].reason)
        eventually(lambda: any(f.version_max == 2 for f in platform.fragments.values()))

    assert refused.state == "running"
    assert refused.reason.startswith("2 of 2 workers: the weights of version 1 do not fit")
    assert [(w.active_step, w.restarts) for w in refused.workers] == [(0, 0), (0, 0)]
    assert not {1} & {f.version_max for f in platform.fragments.values()}
