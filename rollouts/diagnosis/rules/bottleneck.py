"""Bottleneck diagnosis of a run: the cause, the numbers that prove it and a remedy.

The first matching rule gives the diagnosis. Rules about both sides of the queue precede rules about
one side: a waiting trainer proves nothing if a limit holds the workers back.

A diagnosis of the pace has hysteresis: it remains as long as it matches with thresholds relaxed by
:data:`SLACK`, so that numbers near a threshold do not change it back and forth. Crashes remain the
diagnosis with one crash fewer. Late weights remain it for a minute after each late version, as
workers are behind only until they load it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from rollouts.diagnosis.rules import environment_failures, idle_diagnosis, pace, stalls
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts

SLACK: Final = 0.1
"""Share by which the numbers must pass a threshold before the diagnosis changes."""

_BLOCKING: Final[tuple[Callable[[Facts], Diagnosis | None], ...]] = (
    idle_diagnosis.over,
    idle_diagnosis.paused,
    idle_diagnosis.without_jobs,
    idle_diagnosis.unheard,
    stalls.inference_failed,
    stalls.crashing,
    environment_failures.failing,
    environment_failures.fragments_refused,
    stalls.blocked,
    idle_diagnosis.starting,
    idle_diagnosis.without_workers,
    idle_diagnosis.without_weights,
    idle_diagnosis.draining,
    idle_diagnosis.refused,
    idle_diagnosis.dropped_on_arrival,
    idle_diagnosis.without_trainer,
    environment_failures.idle,
    environment_failures.missing,
    environment_failures.equal_rewards,
    environment_failures.without_gradient,
    idle_diagnosis.silent,
    stalls.behind,
    stalls.unpublished,
    stalls.untaken,
    stalls.stuck,
)
_STILL: Final[Mapping[str, tuple[Callable[[Facts], Diagnosis | None], ...]]] = {
    "workers_crash": (stalls.crashing, stalls.still_crashing),
    "weights_behind": (stalls.behind, stalls.still_behind),
}
"""By kind: a blocking rule, and the relaxed rule by which its diagnosis remains."""
_PACE: Final[Mapping[str, Callable[[Facts, float], Diagnosis | None]]] = {
    "data_stale": pace.data_stale,
    "weights_slow": pace.slow_weights,
    "staleness_limit": pace.staleness_limit,
    "trainer": pace.trainer,
    "queue_full": pace.queue_full,
    "delivery": pace.delivery,
    "batches_unformed": pace.batches_unformed,
    "slow_worker": pace.slow_worker,
}
"""In the order of precedence."""
_KEPT: Final[Mapping[str, Callable[[Facts, float], Diagnosis | None]]] = {
    **_PACE,
    **{kind: partial(pace.still_slow, kind) for kind in pace.PRODUCER_KINDS},
}


def diagnose(facts: Facts, *, previous: str = "") -> Diagnosis:
    """Return the bottleneck of a run.

    Args:
        facts: Measurements of the last minute.
        previous: Kind of the last recorded diagnosis; empty if there is none.
    """
    strict, relaxed = _STILL.get(previous, (None, None))
    for rule in _BLOCKING:
        found = rule(facts)
        if found is None and relaxed is not None and rule is strict:
            found = relaxed(facts)
        if found is not None:
            return found
    kept = _KEPT.get(previous)
    if kept is not None and (found := kept(facts, SLACK)) is not None:
        return found
    for paced in _PACE.values():
        if (found := paced(facts, 0.0)) is not None:
            return found
    return pace.slow_producers(facts)
