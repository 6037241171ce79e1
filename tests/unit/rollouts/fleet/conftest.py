"""Fixtures: settings, and odd environments for env processes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from runs.config.rules import run_config

ROOT = Path(__file__).resolve().parents[4]
# A starting worker ends leftover processes of its fleet, including their owner. Parallel tests must
# therefore use different fleets.
NOWHERE = f"http://127.0.0.1:9/{os.getpid()}"


@pytest.fixture(autouse=True)
def _odd_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_MODULES", "odd_environments")


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[..., FleetSettings]:
    def make(
        *,
        url: str = NOWHERE,
        spec: str = "gymnasium:CartPole-v1",
        kwargs: dict[str, Any] | None = None,
        environment: dict[str, Any] | None = None,
        max_staleness: int = 1,
        policy: dict[str, Any] | None = None,
        evaluation: dict[str, Any] | None = None,
        **fleet: Any,
    ) -> FleetSettings:
        small = {"envs_per_worker": 4, "envs_per_process": 2, "inference_batch_size": 4}
        config = {
            "environment": {
                "spec": spec,
                "kwargs": kwargs or {},
                **(environment or {}),
            },
            "fleet": {**small, "fragment_length": 8, **fleet},
            "policy": policy or {"hidden_sizes": [8]},
            "buffer": {"max_staleness": max_staleness},
            "evaluation": evaluation or {},
        }
        return FleetSettings(
            platform_url=url,
            token="t",
            run="r",
            run_config=run_config.to_builtins(run_config.parse(config)),
            incarnation="1-aaaa",
            spool_root=str(tmp_path),
            log_root=str(tmp_path / "logs"),
        )

    return make


@pytest.fixture
def make_worker_settings(
    make_settings: Callable[..., FleetSettings],
) -> Callable[..., WorkerSettings]:
    def make(**changes: Any) -> WorkerSettings:
        return WorkerSettings(fleet=make_settings(**changes), index=0, incarnation="1-aaaa-bb")

    return make
