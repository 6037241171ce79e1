"""The diagnosis of a run: every cause that harms or limits it, in order of harm.

A state that explains everything else is the only cause. Otherwise every problem is named. The pace
is judged only if no problem explains it: the first matching rule names the slowest part. Rules
about both sides of the queue precede rules about one side: a waiting trainer proves nothing if a
limit holds the workers back.

A cause that was named remains as long as it matches with thresholds relaxed by
:data:`rollouts.diagnosis.rules.flow.SLACK`, so that numbers near a threshold do not change it back
and forth.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final

from rollouts.diagnosis.rules import pace, problems, states
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts
from rollouts.diagnosis.rules.states import (
    idle_environments,
    measuring,
    no_activity,
    no_environments,
    trainer_stuck,
    untaken,
    weights_unpublished,
)

Rule = Callable[[Facts], Diagnosis | None]

_STATES: Final[tuple[Rule, ...]] = (states.paused, states.silent_fleet)
_LOSSES: Final[tuple[Rule, ...]] = (
    problems.pushes_refused,
    problems.fragments_refused,
    problems.dropped_on_arrival,
)
_PROBLEMS: Final[tuple[Rule, ...]] = (
    states.without_jobs,
    *_LOSSES,
    problems.inference_failed,
    problems.workers_crash,
    problems.environments_fail,
    problems.workers_blocked,
    states.starting,
    problems.without_workers,
    problems.workers_down,
    problems.without_weights,
    states.draining,
    problems.waiting_for_trainer,
    problems.unacknowledged,
    problems.no_gradient,
    problems.equal_rewards,
    problems.dropped_as_stale,
    problems.weights_behind,
)
_EXPLAINS_PACE: Final = frozenset(
    {
        *("not_running", "run_not_starting", "workers_down", "environments_fail"),
        *("training_stalled", "weights_late"),
    }
)
"""Kinds beside which a slow part is only a consequence."""
_PACE: Final[tuple[Rule, ...]] = (
    measuring,
    idle_environments,
    no_environments,
    no_activity,
    weights_unpublished,
    untaken,
    trainer_stuck,
    pace.slow_weights,
    pace.staleness_limit,
    pace.trainer,
    pace.queue_full,
    pace.delivery,
    pace.batches_unformed,
    pace.slow_worker,
    pace.slow_producers,
)


def diagnose(facts: Facts, *, previous: Collection[str] = ()) -> list[Diagnosis]:
    """Return everything that is wrong with a run or limits it, the most harmful cause first.

    `previous` are the keys of the causes that were recorded last.
    """
    facts = replace(facts, previous=previous)
    if (over := states.over(facts)) is not None:
        return [over]
    found = _all(facts, _STATES)
    if found:
        jobs = states.without_jobs(facts) if "fleet_silent" in found else None
        # Nothing launches a silent fleet again while the jobs do not run.
        return [*([jobs] if jobs else []), *(found | _all(facts, _LOSSES)).values()]
    found = _all(facts, _PROBLEMS)
    # If nothing arrives and no trainer holds a batch, the problem explains it.
    is_idle = facts.arriving is None and facts.holding_seconds is None
    if found.keys() & _EXPLAINS_PACE or (found and is_idle):
        return list(found.values())
    slowest = next(cause for rule in _PACE if (cause := rule(facts)) is not None)
    return [*found.values(), slowest]


def _all(facts: Facts, rules: Iterable[Rule]) -> dict[str, Diagnosis]:
    """Return the causes by kind; the first one of a kind says more than the later ones."""
    found: dict[str, Diagnosis] = {}
    for rule in rules:
        cause = rule(facts)
        if cause is None:
            continue
        first = found.setdefault(cause.kind, cause)
        if not first.alerts:
            found[cause.kind] = replace(first, alerts=cause.alerts)
    return found
