"""Observations of rollout workers, images included, and values of `info` reach a trainer."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_django.live_server_helper import LiveServer

from buffer.items.models import FragmentChunk
from buffer.payloads.services.partitions import clear_current_segment
from rolldeck.batches import Batch
from rolldeck.http import Connection
from rolldeck.trainer import Trainer
from rolldeck.training.chunks import join, stack
from rolldeck.wire import FragmentReceipt
from rollouts.fleet.environments.loader import describe, import_registered_modules, make
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.policies.factory import make_module
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.wrapper import RolloutWorkerWrapper
from rollouts.fleet.weights.records import WeightsRecord
from rollouts.fleet.worker.messages import WorkerCommand
from runs.config.rules import run_config
from runs.lifecycle.models import Run
from tests.factories import make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)

FLEET_TESTS = str(Path(__file__).resolve().parents[2] / "unit" / "rollouts" / "fleet")
STEPS = 8
SIZES = {"envs_per_worker": 2, "envs_per_process": 2, "inference_batch_size": 2}


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[None]:
    settings.ROLLDECK_ENVIRONMENTS = ["walk:camera", "odd:labelled", "odd:labelled-rows"]
    monkeypatch.syspath_prepend(FLEET_TESTS)
    monkeypatch.setenv("PYTHONPATH", FLEET_TESTS)
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_MODULES", "random_walks")
    clear_current_segment()
    yield
    clear_current_segment()


def config_of(
    spec: str,
    kwargs: dict[str, Any],
    kind: str,
    *,
    info: Sequence[str] = (),
    replay: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "environment": {"spec": spec, "kwargs": kwargs, "info": list(info)},
        "fleet": {**SIZES, "fragment_length": STEPS},
        "policy": {"kind": kind, "hidden_sizes": [8], "channels": [4, 4], "recurrent_units": 4},
        "buffer": {"batch_size": 4, "max_staleness": 4, "replay": replay or {}},
    }


@contextmanager
def rolling_out(
    run: Run, config: dict[str, Any], url: str
) -> Iterator[tuple[RolloutWorkerWrapper, list[bytes]]]:
    """Run a worker against the platform, and record its pushes."""
    settings = FleetSettings(
        platform_url=url,
        token=make_token("worker", run=run)[1],
        run=run.name,
        run_config=run_config.to_builtins(run_config.parse(config)),
        incarnation="1-aaaa",
    )
    sent: list[bytes] = []
    platform = PlatformApi(settings)

    def push(fragments: list[bytes]) -> FragmentReceipt:
        receipt = platform.push(fragments)
        sent.extend(fragments)
        return receipt

    worker = RolloutWorkerWrapper(
        WorkerSettings(fleet=settings, index=0, incarnation="1-aaaa-bb"), push=push
    )
    try:
        yield worker, sent
    finally:
        worker.stop()
        platform.close()


def weights_for(config: dict[str, Any]) -> dict[str, np.ndarray]:
    # Registers the same modules as the env processes.
    import_registered_modules()
    parsed = run_config.parse(config)
    spec, kwargs = parsed.environment.spec, parsed.environment.kwargs
    shown, taken = describe(make(spec, kwargs))
    module = make_module(parsed.policy, shown, taken)
    return {name: value.numpy() for name, value in module.state_dict().items()}


def received(trainer: Trainer, within_seconds: float) -> Batch:
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        batch = trainer.next_batch(wait_seconds=5)
        if batch is not None:
            return batch
    raise AssertionError("no batch came")


def first_batch(config: dict[str, Any], url: str) -> tuple[Batch, list[bytes]]:
    """Return the first batch of a run that a worker fills, and the fragments that it sent."""
    run = make_run(name="pictures", config=config)
    weights = weights_for(config)
    with ExitStack() as opened:
        connection = opened.enter_context(
            Connection(url, make_token("trainer", run=run)[1], retry_for_seconds=0)
        )
        trainer = Trainer("", run.name, connection=connection)
        trainer.register()
        trainer.publish_weights(weights, step=0)
        worker, sent = opened.enter_context(rolling_out(run, config, url))
        worker.update_weights(WeightsRecord(epoch=1, step=0, tensors=weights))
        worker.heartbeat(WorkerCommand(desired="running", epoch=1, policy_step=0, credits=4))
        return received(trainer, within_seconds=90), sent


@pytest.mark.parametrize(
    ("spec", "kwargs", "kind", "pictures"),
    [
        ("rolldeck:catch-v0", {"height": 120, "width": 120}, "cnn", ""),
        ("walk:camera", {}, "gru", ".image"),
    ],
    ids=["a picture", "a picture and other parts"],
)
def test_images_of_a_worker_are_served_byte_for_byte(
    live_server: LiveServer, spec: str, kwargs: dict[str, Any], kind: str, pictures: str
) -> None:
    batch, sent = first_batch(config_of(spec, kwargs, kind), live_server.url)
    stacked = batch.stack()

    assert sorted(map(bytes, batch.items)) == sorted(sent)
    # Larger than the limit for payloads inside a database row.
    assert all(len(fragment) > 64 * 1024 for fragment in sent)
    assert all(FragmentChunk.objects.values_list("object", flat=True))
    obs, next_obs = stacked[f"obs{pictures}"], stacked[f"next_obs{pictures}"]
    assert obs.dtype == np.uint8
    assert obs.shape[:2] == (4, STEPS)
    assert obs.any()
    assert next_obs.shape == (4, *obs.shape[2:])


@pytest.mark.parametrize(
    "replay", [{}, {"sampler": "uniform", "fragments_per_chunk": 2}], ids=["queue", "samples"]
)
@pytest.mark.parametrize("spec", ["odd:labelled", "odd:labelled-rows"])
def test_values_of_info_of_a_worker_are_stacked_and_joined_by_a_trainer(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, spec: str, replay: dict[str, Any]
) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_MODULES", "odd_environments")
    keys = ["label", "nested.half", "episode.r", "absent"]

    config = config_of(spec, {}, "mlp", info=keys, replay=replay)
    batch, sent = first_batch(config, live_server.url)
    joined = stack(join(batch.fragments))

    assert {bytes(item) for item in batch.items} <= set(sent)
    for arrays in (batch.stack(), joined):
        mask, labels = arrays["mask"], arrays["obs"][..., 0] + 1
        assert mask.sum() == 4 * STEPS
        np.testing.assert_array_equal(arrays["info.label"][mask], arrays["reward"][mask])
        np.testing.assert_array_equal(arrays["info.label"][mask], labels[mask])
        np.testing.assert_array_equal(arrays["info.nested.half"][mask], labels[mask] / 2)
        has_total = ~np.isnan(arrays["info.episode.r"])
        np.testing.assert_array_equal(has_total, arrays["terminated"])
        assert has_total.any()
        assert np.isnan(arrays["info.absent"][mask]).all()
