"""Diagnosis of a run's throughput.

:func:`rollouts.diagnosis.rules.bottleneck.diagnose` is the only source. The API, every page and
the command line show its result, so they never disagree.
"""

from dataclasses import dataclass, field
from typing import Literal

from rollouts.diagnosis.rules.flow import Stage

Kind = Literal[
    # Throughput is not meaningful.
    "not_running",
    "paused",
    "jobs_down",
    "fleet_unknown",
    "fleet_starting",
    "no_workers",
    "no_weights",
    "draining",
    "pushes_refused",
    "data_dropped",
    "no_trainer",
    "no_activity",
    "no_environments",
    "environments_idle",
    "equal_rewards",
    "no_gradient",
    # Something prevents progress.
    "inference_failed",
    "workers_crash",
    "environments_fail",
    "workers_blocked",
    "weights_behind",
    "weights_unpublished",
    "no_batch_size",
    "not_served",
    "batch_filling",
    "trainer_stuck",
    # Every part works, and one is the slowest.
    "data_stale",
    "weights_slow",
    "staleness_limit",
    "trainer",
    "queue_full",
    "delivery",
    "batches_unformed",
    "slow_worker",
    "environments",
    "exchange",
    "inference",
    "sending",
    "outside_environments",
]
"""Kind of a diagnosis; one action belongs to each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The bottleneck of a run."""

    kind: Kind
    summary: str
    stage: Stage | None = None
    """Stage of the bottleneck; None if there is none or it is unknown."""
    evidence: list[str] = field(default_factory=list)
    """Measurements that support the summary, each in a few words."""
    change: str = ""
    """Action to take; empty if there is none."""
