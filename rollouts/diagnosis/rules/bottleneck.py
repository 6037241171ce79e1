"""Bottleneck diagnosis of a run: the cause, the numbers that prove it and a remedy.

The first matching rule gives the diagnosis. Rules about both sides of the queue precede rules about
one side: a waiting trainer proves nothing if a limit holds the workers back.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from rollouts.diagnosis.rules import idle_diagnosis
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts, Stage, share_of, stages
from web.rules.amounts import duration, percent

MOSTLY: Final = 0.5
NOTABLY: Final = 0.3
SELDOM: Final = 0.2
"""Share up to which waiting is ignored: at or below it, a waiting trainer is still the bottleneck,
and a limit does not count as slowing workers.
"""
NEVER: Final = 0.05
"""Share up to which a trainer counts as never waiting."""
SEND_IS_BUSY: Final = 0.9
"""Share from which sending slows the loop. Below it, sending runs concurrently at no cost."""
LONG_SECONDS: Final = 60.0
"""A trainer that holds a batch longer may hang; newer weights are overdue after this time."""
LATE_SECONDS: Final = 30.0
"""Weights that take longer than this to reach a worker count as not delivered."""
FULL_BATCHES: Final = 2.0
"""Number of complete queued batches from which a waiting trainer does not lack data."""


def judge(facts: Facts) -> Diagnosis:
    """Return the bottleneck of a run."""
    for rule in _RULES:
        if (found := rule(facts)) is not None:
            return found
    return _slow_producers(facts)


def gain_of_a_worker(facts: Facts) -> float | None:
    """Return the expected speedup from one more worker, as a fraction of the present speed.

    Workers share only the queue, so n + 1 workers produce (n + 1) / n times as much, up to the
    point where the trainer never waits. None if unknown, or if a limit holds the present workers
    back.
    """
    if not facts.workers or facts.trainer_waits is None or facts.held_back > SELDOM:
        return None
    most = math.inf if facts.trainer_waits >= 1 else 1 / (1 - facts.trainer_waits)
    return min(1 + 1 / facts.workers, most) - 1


def _behind(facts: Facts) -> Diagnosis | None:
    behind = facts.versions_behind
    if facts.kind == "outside" or not behind or (facts.behind_seconds or 0.0) < LATE_SECONDS:
        return None
    return Diagnosis(
        stage="infer",
        summary=f"The slowest worker is {_versions(behind)} behind the newest published weights.",
        evidence=[
            f"the newest version is {facts.version}",
            f"a newer version has been available for {duration(facts.behind_seconds or 0.0)}",
            f"workers should receive a version within {duration(LATE_SECONDS)}",
        ],
        change="Open Weights to see which worker lacks the version, and why. Its data "
        "becomes too stale to train on.",
    )


def _unpublished(facts: Facts) -> Diagnosis | None:
    """Diagnose a deadlock: workers need newer weights to continue, and no trainer trains."""
    is_idle = facts.holding_seconds is None and facts.batches_waiting < 1
    is_late = (facts.version_age_seconds or 0.0) >= LONG_SECONDS
    is_held = facts.held_back >= MOSTLY
    if facts.kind == "outside" or not (is_idle and is_late and is_held):
        return None
    return Diagnosis(
        stage="train",
        summary=f"No weights were published for "
        f"{duration(facts.version_age_seconds or 0.0)}, and {_limit(facts)} pauses the workers "
        "until the next version.",
        evidence=[
            _held_back(facts),
            f"the newest version is {facts.version}",
            f"{facts.queued:,} {facts.unit} are queued, a batch takes {facts.batch_size or 0:,}",
        ],
        change=f"Publish weights after each train step, or raise {_setting(facts)}.",
    )


def _versions(count: int) -> str:
    return f"{count:,} version{'' if count == 1 else 's'}"


def _untaken(facts: Facts) -> Diagnosis | None:
    if facts.trainer_waits is not None:
        return None
    if facts.batch_size is None:
        return Diagnosis(
            stage="train",
            summary="The run has no batch size, so no batch can be formed.",
            evidence=[f"{facts.queued:,} {facts.unit} are queued"],
            change="Register a trainer with a batch size, or set `batch_size` on the run.",
        )
    if facts.queued >= facts.batch_size:
        pause = _pause(facts, is_held=facts.is_limited or facts.held_back >= MOSTLY)
        return Diagnosis(
            stage="train",
            summary=f"No trainer leases the queued batches.{pause}",
            evidence=[
                f"{facts.queued:,} {facts.unit} are queued, a batch takes {facts.batch_size:,}",
                "no batch was leased in the last minute",
            ],
            change="Start the trainer, or check its output: it holds no batch."
            + (f" The {_producers(facts)} then resume automatically." if pause else ""),
        )
    return Diagnosis(
        stage="queue",
        summary=f"The next batch is filling: {facts.queued:,} of {facts.batch_size:,} "
        f"{facts.unit}.",
        evidence=[_arriving(facts), "no batch was leased in the last minute"],
    )


def _producers(facts: Facts) -> str:
    return "environments" if facts.kind == "outside" else "workers"


def _pause(facts: Facts, *, is_held: bool) -> str:
    """Return a summary about the limit that pauses producers, with a leading space.

    A full queue and the staleness limit differ: the latter pauses workers even if the queue is
    empty.
    """
    if facts.is_full:
        return f" The queue is full, so {_producers(facts)} pause."
    if is_held and facts.kind != "outside":
        limit = _limit(facts)
        return f" {limit[0].upper()}{limit[1:]} pauses workers."
    return ""


def _limit(facts: Facts) -> str:
    """Name the limit on data that workers produce ahead of the trainer."""
    if facts.max_staleness is None:
        return "the off-policy tolerance"
    return f"the staleness limit (max_staleness {facts.max_staleness:,})"


def _setting(facts: Facts) -> str:
    return "off_policy_tolerance" if facts.max_staleness is None else "max_staleness"


def _held_back(facts: Facts) -> str:
    return f"{_limit(facts)} pauses workers {percent(facts.held_back)} of their time"


def _alternating_stages(facts: Facts) -> Diagnosis | None:
    waits = facts.trainer_waits or 0.0
    if min(waits, facts.held_back) <= SELDOM:
        return None
    return Diagnosis(
        stage="queue",
        summary="Trainer and workers take turns: each waits while the other is busy.",
        evidence=[
            f"the trainer waits {percent(waits)} of its time for data",
            _held_back(facts),
        ],
        change=f"Raise {_setting(facts)} by 1 to let workers run further ahead, if your algorithm "
        "tolerates data that is 1 version older.",
    )


def _stuck(facts: Facts) -> Diagnosis | None:
    held = facts.holding_seconds or 0.0
    if facts.handed_out is not None or held < LONG_SECONDS or facts.trainer_waits is None:
        return None
    return Diagnosis(
        stage="train",
        summary=f"The trainer has held one batch for {duration(held)} "
        f"(limit {duration(LONG_SECONDS)}).",
        evidence=["no batch was leased in the last minute", *_waiting_batches(facts)],
        change="If train steps should be shorter, check the trainer's output: it may hang. When "
        "the lease expires, the next trainer that asks gets the batch.",
    )


def _trainer_bound(facts: Facts) -> Diagnosis | None:
    waits = facts.trainer_waits
    if waits is None or waits > SELDOM:
        return None
    evidence = [f"the trainer waits {percent(waits)} of its time for data"]
    if facts.train_seconds is not None:
        evidence.append(f"it holds a batch for {facts.train_seconds:.3g} s")
    evidence += _waiting_batches(facts)
    change = "Make train steps faster; more data would only stay queued longer."
    if facts.held_back >= NOTABLY and facts.workers > 1:
        evidence.append(_held_back(facts))
        enough = max(1, math.ceil(facts.workers * (1 - facts.held_back)))
        if enough < facts.workers and waits <= NEVER:
            change += f" {enough} of the {facts.workers} workers would suffice for this trainer."
    return Diagnosis(
        stage="train",
        summary=f"The trainer is the bottleneck: it is busy {percent(1 - waits)} of the time."
        f"{_pause(facts, is_held=facts.held_back >= NOTABLY)}",
        evidence=evidence,
        change=change,
    )


def _delivery_bound(facts: Facts) -> Diagnosis | None:
    waits, share = facts.trainer_waits or 0.0, facts.delivery_share or 0.0
    if share < NOTABLY or share < waits / 2:
        return None
    return Diagnosis(
        stage="batch",
        summary=f"Batches are in transit to the trainer {percent(share)} of the time.",
        evidence=[
            f"a batch takes {facts.delivery_seconds or 0.0:.3g} s from its lease to its last byte",
            f"the trainer waits {percent(waits)} of its time",
        ],
        change="Prefetch the next batch while training, move the trainer closer to "
        "the server, or push smaller observations (uint8 instead of float32).",
    )


def _unformed_batches(facts: Facts) -> Diagnosis | None:
    waits = facts.trainer_waits or 0.0
    if waits < NOTABLY or facts.batches_waiting < FULL_BATCHES:
        return None
    return Diagnosis(
        stage="batch",
        summary="The trainer waits although complete batches are queued.",
        evidence=[
            f"{facts.queued:,} {facts.unit} are queued, a batch takes {facts.batch_size or 0:,}",
            f"the trainer waits {percent(waits)} of its time",
        ],
        change="Check the next batch on the Queue tab: an environment's minimum may not be met, "
        "or the trainer may request batches late.",
    )


_RULES: Final[tuple[Callable[[Facts], Diagnosis | None], ...]] = (
    idle_diagnosis.over,
    idle_diagnosis.paused,
    idle_diagnosis.unheard,
    idle_diagnosis.starting,
    idle_diagnosis.without_workers,
    idle_diagnosis.without_weights,
    idle_diagnosis.draining,
    idle_diagnosis.refused,
    idle_diagnosis.without_trainer,
    idle_diagnosis.silent,
    _behind,
    _unpublished,
    _untaken,
    _alternating_stages,
    _stuck,
    _trainer_bound,
    idle_diagnosis.over_tolerance,
    _delivery_bound,
    _unformed_batches,
)


def _slow_producers(facts: Facts) -> Diagnosis:
    """Diagnose a run whose trainer waits because too little data arrives."""
    waits = facts.trainer_waits or 0.0
    if facts.kind == "outside" or not facts.shares:
        return _slow_outside_environments(facts, waits)
    seen = [stage.name for stage in stages(facts) if stage.name in _PRODUCING]
    busiest: Stage = max(seen, key=lambda stage: _load(stage, facts.shares))
    share = share_of(busiest, facts.shares) or 0.0
    what, help_ = _PRODUCING[busiest]
    role = "is the bottleneck" if waits >= MOSTLY else "is the slowest part"
    return Diagnosis(
        stage=busiest,
        summary=f"{what} {role}: {percent(share)} of the workers' time, "
        f"while the trainer waits {percent(waits)} of its time.",
        evidence=[_arriving(facts), _remedy(facts, waits), *_breakdown(facts)],
        change=" ".join(filter(None, [_one_more(facts), help_])),
    )


def _load(stage: Stage, shares: Mapping[str, float]) -> float:
    """Return the share of the workers' time in which a stage keeps their loops busy."""
    sending = shares.get("send", 0.0)
    if stage == "push" and sending >= SEND_IS_BUSY:
        return sending
    return share_of(stage, {name: share for name, share in shares.items() if name != "send"}) or 0.0


_PRODUCING: Final[dict[Stage, tuple[str, str]]] = {
    "step": (
        "Stepping environments",
        "Use cheaper environments, or more processes to step them (a lower envs_per_process).",
    ),
    "exchange": (
        "Exchanging observations and actions with environments",
        "Raise envs_per_process or inference_batch_size, or use envs_in_worker.",
    ),
    "infer": (
        "The policy's inference",
        "Give the workers a GPU, or raise inference_batch_size.",
    ),
    "push": (
        "Cutting and sending fragments",
        "Use a faster network to the server, or smaller observations (uint8 instead of float32).",
    ),
}


def _slow_outside_environments(facts: Facts, waits: float) -> Diagnosis:
    who = "The environments" if facts.kind == "outside" else "The workers"
    role = "are the bottleneck" if waits >= MOSTLY else "nearly keep pace"
    return Diagnosis(
        stage="push",
        summary=f"{who} {role}: the trainer waits {percent(waits)} of its time for data.",
        evidence=[_arriving(facts), _remedy(facts, waits)],
        change="Run more environments, or let each sample more in parallel. Their internal "
        "timings are not visible to the server."
        if facts.kind == "outside"
        else "Add workers.",
    )


def _arriving(facts: Facts) -> str:
    if facts.arriving is None:
        return "no data arrived in the last minute"
    return f"{facts.arriving:.3g} {facts.unit} arrive per second"


def _remedy(facts: Facts, waits: float) -> str:
    if not facts.handed_out or waits >= 1:
        return f"the trainer waits {percent(waits)} of its time"
    return f"the trainer could consume about {facts.handed_out / (1 - waits):.3g} per second"


def _waiting_batches(facts: Facts) -> list[str]:
    whole = int(facts.batches_waiting)
    return [f"{whole:,} more {'is' if whole == 1 else 'are'} queued"] if whole else []


def _breakdown(facts: Facts) -> list[str]:
    shares = [(share_of(stage, facts.shares) or 0.0, stage) for stage in _PRODUCING]
    parts = [f"{stage} {percent(share)}" for share, stage in shares if share >= 0.005]
    return [f"workers' time: {', '.join(parts)}"] if parts else []


def _one_more(facts: Facts) -> str:
    gain = gain_of_a_worker(facts)
    if gain is None or gain < 0.005:
        return ""
    workers = f"{facts.workers} worker{'' if facts.workers == 1 else 's'}"
    return f"Add workers: one more than the present {workers} would give about +{percent(gain)}."
