"""A real fleet in threads of the test, with a real web server."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import httpx
from django.core.files.base import ContentFile

from rolldeck import safetensors
from rolldeck.wire import WeightsManifest
from rollouts.control.models import FleetWorker
from rollouts.control.rules import LaunchRequest
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings
from runs.lifecycle.models import Run
from runs.weights.services import publish_weights
from tests.factories import bearer


class Platform:
    """The real web server, and a signed-in reader."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, headers=bearer("admin"), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def log(self, query: str = "") -> dict[str, Any]:
        answer = self._client.get(f"/api/v1/runs/pole/fleet/logs?wait=10&{query}")
        assert answer.status_code == 200, answer.text
        content: dict[str, Any] = answer.json()
        return content

    def status(self, query: str) -> int:
        return self._client.get(f"/api/v1/runs/pole/fleet/logs?{query}").status_code


def slots_run(pids: set[int | None] | None = None) -> bool:
    worker = FleetWorker.objects.filter(index=0).first()
    return worker is not None and any(
        slot.pid not in {None, *(pids or ())} for slot in worker.slots.all()
    )


def local_fleet(platform: Platform, order: LaunchRequest, folder: Path) -> LocalFleet:
    return LocalFleet(
        FleetSettings(
            platform_url=platform.url,
            token=order.token,
            run=order.run,
            run_config=order.config,
            incarnation=order.incarnation,
            weights_directory=order.weights_directory,
            spool_root=str(folder / "spool"),
            log_root=str(folder / "logs"),
        )
    )


def publish(run: Run, *, step: int = 0) -> None:
    """Publish weights that fit CartPole and the run's policy, as a trainer does."""
    from rollouts.fleet.policies.networks import MlpPolicy

    hidden = run.config["policy"]["hidden_sizes"]
    state = MlpPolicy(4, 2, hidden).state_dict()
    content = safetensors.encode({name: value.numpy() for name, value in state.items()})
    run.refresh_from_db()
    now = datetime.now(UTC)
    manifest = WeightsManifest(
        epoch=run.epoch,
        step=step,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        tensors=safetensors.specs(content),
    )
    publish_weights(
        run_id=run.pk, manifest=manifest, file=ContentFile(content), identity="t", now=now
    )
