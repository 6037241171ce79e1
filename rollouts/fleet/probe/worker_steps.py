"""Run a rollout worker until its first fragment, to probe the configuration of a run."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from buffer.ingest.rules.fragments import BrokenFragment, check
from rolldeck.wire import FleetEvent, Fragment, encode_push
from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
from rollouts.fleet.steps.local_rollout import InitialWeights, LocalWorker, RolloutFailed

SECONDS: Final = 10.0
"""Time after the first step at which the steps so far are cut into a padded fragment."""
_FAILURES: Final = frozenset({"slot_restarted", "slot_failed", "loop_crashed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """The first fragment of a worker, or the event that prevented it."""

    event: FleetEvent | None = None
    push_bytes: int = 0
    """Size of a push of the fragment."""
    problem: str = ""
    """Why the server would refuse the fragment; empty if it would not."""


def run_worker(run_config: Mapping[str, Any]) -> WorkerResult:
    """Run a worker of a run with one environment, in this process, with initial weights."""
    small = {"envs_per_worker": 1, "envs_in_worker": True, "inference_batch_size": 1}
    fleet = {**run_config["fleet"], **small, "device": "cpu", "num_gpus_per_worker": 0}
    policy = dict(run_config["policy"])
    if policy["precision"] == "float16":  # only on a GPU, which the probe does not use
        policy["precision"] = "bfloat16"
    settings = FleetSettings(
        platform_url="",
        token="",
        run="check",
        run_config={**run_config, "fleet": fleet, "policy": policy},
        incarnation="check",
        spool_root=".",
        log_root=".",
    )
    fragments: list[bytes] = []
    failures: list[FleetEvent] = []
    ends_at: float | None = None

    def is_over() -> bool:
        nonlocal ends_at
        failures.extend(_failures(worker))
        if ends_at is None and worker.builder.env_steps:
            ends_at = time.monotonic() + SECONDS
        is_late = ends_at is not None and time.monotonic() > ends_at
        return bool(fragments or failures) or is_late

    worker = LocalWorker(
        WorkerSettings(fleet=settings, index=0, incarnation="check"),
        weights=InitialWeights(settings.config, None),
        device="cpu",
        deliver=fragments.append,
        is_over=is_over,
    )
    try:
        worker.run()
    except RolloutFailed as failure:
        failures.extend(_failures(worker))
        if not failures:
            failures.append(FleetEvent(kind="rollout_failed", message=str(failure)))
    if failures:
        return WorkerResult(event=failures[0])
    problem = ""
    try:
        check(msgspec.msgpack.decode(fragments[0], type=Fragment))
    except BrokenFragment as error:
        problem = str(error)
    return WorkerResult(push_bytes=len(encode_push(fragments[:1])), problem=problem)


def _failures(worker: LocalWorker) -> list[FleetEvent]:
    return [
        event for event in worker.events.pop() if event.level == "error" or event.kind in _FAILURES
    ]
