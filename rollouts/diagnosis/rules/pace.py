"""Diagnosis of runs in which every part works: the slowest part sets the pace.

A part below a share of 20 % is never named.
"""

import math
from collections.abc import Mapping
from typing import Final

from rollouts.diagnosis.rules import diagnosis as common
from rollouts.diagnosis.rules.diagnosis import MOSTLY, NEVER, NOTABLY, SELDOM, Diagnosis
from rollouts.diagnosis.rules.flow import Facts, Stage, share_of, stages
from web.rules.amounts import duration, percent

SEND_IS_BUSY: Final = 0.9
"""Share from which sending slows the loop. Below it, sending runs concurrently at no cost."""
FULL_BATCHES: Final = 2.0
"""Number of complete queued batches from which a waiting trainer does not lack data."""
SLOW_WORKER: Final = 0.5
"""Share of the median rate of the others below which a worker is slow."""


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


def slow_weights(facts: Facts) -> Diagnosis | None:
    """Diagnose workers that wait for each new version, while the trainer waits for data."""
    slack = facts.slack("weights_late", "infer")
    waits, loads = facts.trainer_waits or 0.0, facts.shares.get("waiting_weights", 0.0)
    if facts.kind == "outside" or min(waits, loads) <= SELDOM - slack:
        return None
    if loads < facts.held_back - slack:
        return None
    evidence = [f"the trainer waits {percent(waits)} of its time for data"]
    if facts.load_seconds is not None:
        evidence.append(f"the slowest load of the last minute took {duration(facts.load_seconds)}")
    if facts.version_interval_seconds is not None:
        interval = duration(facts.version_interval_seconds)
        evidence.append(f"the two newest versions were published {interval} apart")
    return Diagnosis(
        kind="weights_late",
        stage="infer",
        summary=f"Workers wait for new weights {percent(loads)} of their time.",
        evidence=evidence,
        change="Publish weights less often, or make them faster to load: Weights shows how long "
        "each step of a load takes.",
    )


def staleness_limit(facts: Facts) -> Diagnosis | None:
    """Diagnose a trainer and workers that take turns."""
    slack = facts.slack("staleness_limit", "queue")
    waits = facts.trainer_waits or 0.0
    if min(waits, facts.held_back) <= SELDOM - slack:
        return None
    return Diagnosis(
        kind="staleness_limit",
        stage="queue",
        summary="Trainer and workers take turns: each waits while the other is busy.",
        evidence=[
            f"the trainer waits {percent(waits)} of its time for data",
            common.held_back(facts),
        ],
        change=f"Raise {common.limit_setting(facts)} by 1 to let workers run further ahead, if "
        "your algorithm tolerates data that is 1 version older.",
    )


def trainer(facts: Facts) -> Diagnosis | None:
    """Diagnose a trainer that is slower than the producers."""
    slack = facts.slack("trainer_slow", "train")
    waits = facts.trainer_waits
    if waits is None or waits > SELDOM + slack:
        return None
    evidence = [f"the trainer waits {percent(waits)} of its time for data"]
    if facts.train_seconds is not None:
        evidence.append(f"it holds a batch for {facts.train_seconds:.3g} s")
    evidence += common.waiting_batches(facts)
    change = "Make train steps faster; more data would only stay queued longer."
    if facts.held_back >= NOTABLY and facts.workers > 1:
        evidence.append(common.held_back(facts))
        enough = max(1, math.ceil(facts.workers * (1 - facts.held_back)))
        if enough < facts.workers and waits <= NEVER:
            change += f" {enough} of the {facts.workers} workers would suffice for this trainer."
    return Diagnosis(
        kind="trainer_slow",
        stage="train",
        summary=f"The trainer is the bottleneck: it is busy {percent(1 - waits)} of the time."
        f"{common.pause(facts, is_held=facts.held_back >= NOTABLY)}",
        evidence=evidence,
        change=change,
    )


def queue_full(facts: Facts) -> Diagnosis | None:
    """Diagnose an outside run whose queue pauses its environments."""
    slack = facts.slack("trainer_slow", "train")
    is_full = facts.is_full or (slack > 0 and facts.queue_share >= MOSTLY)
    if facts.kind != "outside" or not is_full or facts.batches_waiting < 1:
        return None
    limit = (
        "" if facts.pause_above is None else f", environments pause above {facts.pause_above:,g}"
    )
    return Diagnosis(
        kind="trainer_slow",
        stage="train",
        summary="Environments are paused: they push faster than the trainer consumes.",
        evidence=[f"{facts.queued:,} {facts.unit} are queued{limit}"],
        change="Make train steps faster, or run fewer environments. A trainer that acknowledges "
        "a batch before it trains on it appears to wait while it trains.",
    )


def delivery(facts: Facts) -> Diagnosis | None:
    """Diagnose batches that are long in transit."""
    slack = facts.slack("delivery_slow", "batch")
    waits, share = facts.trainer_waits or 0.0, facts.delivery_share or 0.0
    if share < NOTABLY - slack or share < waits / 2 - slack:
        return None
    return Diagnosis(
        kind="delivery_slow",
        stage="batch",
        summary=f"Batches are in transit to the trainer {percent(share)} of the time.",
        evidence=[
            f"a batch takes {facts.delivery_seconds or 0.0:.3g} s from its lease to its last byte",
            f"the trainer waits {percent(waits)} of its time",
        ],
        change="Prefetch the next batch while training, move the trainer closer to "
        "the server, or push smaller observations (uint8 instead of float32).",
    )


def batches_unformed(facts: Facts) -> Diagnosis | None:
    """Diagnose a trainer that waits although complete batches are queued."""
    slack = facts.slack("delivery_slow", "batch")
    waits = facts.trainer_waits or 0.0
    least = FULL_BATCHES / 2 if slack else FULL_BATCHES
    if waits < NOTABLY - slack or facts.batches_waiting < least:
        return None
    return Diagnosis(
        kind="delivery_slow",
        stage="batch",
        summary="The trainer waits although complete batches are queued.",
        evidence=[
            f"{facts.queued:,} {facts.unit} are queued, a batch takes {facts.batch_size or 0:,}",
            f"the trainer waits {percent(waits)} of its time",
        ],
        change="Check the next batch on the Queue tab: an environment's minimum may not be met, "
        "or the trainer may request batches late.",
    )


def slow_worker(facts: Facts) -> Diagnosis | None:
    """Diagnose a trainer that waits while one worker is much slower than the others."""
    stage: Stage = "infer" if facts.kind == "language" else "step"
    slack = facts.slack("producers_slow", stage)
    waits, slowest = facts.trainer_waits or 0.0, facts.slowest_worker
    if slowest is None or waits <= SELDOM - slack:
        return None
    if slowest.rate >= slowest.median_of_others * (SLOW_WORKER + slack):
        return None
    unit = "episodes" if facts.kind == "language" else "env steps"
    return Diagnosis(
        kind="producers_slow",
        stage=stage,
        summary=f"Worker {slowest.index} is slow: {slowest.rate:.3g} {unit} per second, the other "
        f"workers make {slowest.median_of_others:.3g}.",
        evidence=[f"the trainer waits {percent(waits)} of its time", common.arriving(facts)],
        change="Check the machine of the worker on Fleet: another program may use its processor. "
        "A cordon moves the worker.",
    )


_PRODUCING: Final[dict[Stage, tuple[str, str]]] = {
    "step": (
        "Stepping environments",
        "Use cheaper environments, or more processes to step them (a lower envs_per_process).",
    ),
    "exchange": (
        "Exchanging observations and actions with environments",
        "Raise envs_per_process or inference_batch_size, or use envs_in_worker.",
    ),
    "infer": ("The policy's inference", "Give the workers a GPU, or raise inference_batch_size."),
    "push": (
        "Cutting and sending fragments",
        "Use a faster network to the server, or smaller observations (uint8 instead of float32).",
    ),
}


def slow_producers(facts: Facts) -> Diagnosis:
    """Diagnose a run whose trainer waits because too little data arrives."""
    waits = facts.trainer_waits or 0.0
    is_outside = facts.kind == "outside"
    if is_outside or not facts.shares:
        role = "are the bottleneck" if waits >= MOSTLY else "nearly keep pace"
        return Diagnosis(
            kind="producers_slow",
            stage="push",
            summary=f"The {common.producers(facts)} {role}: the trainer waits {percent(waits)} of "
            "its time for data.",
            evidence=[common.arriving(facts), _demand(facts, waits)],
            change="Run more environments, or let each sample more in parallel. Their internal "
            "timings are not visible to the server."
            if is_outside
            else "Add workers.",
        )
    # The stage that was named remains unless another is clearly slower.
    visible = [stage.name for stage in stages(facts) if stage.name in _PRODUCING]
    slowest = max(
        visible, key=lambda stage: _load(stage, facts.shares) + facts.slack("producers_slow", stage)
    )
    share = share_of(slowest, facts.shares) or 0.0
    if share < SELDOM:
        return Diagnosis(
            kind="no_bottleneck",
            summary=f"The trainer waits {percent(waits)} of its time, and no part of the workers "
            f"is busy for {percent(SELDOM)} of theirs.",
            evidence=[common.arriving(facts), *_breakdown(facts)],
            change=_one_more(facts),
        )
    what, remedy = _PRODUCING[slowest]
    role = "is the bottleneck" if waits >= MOSTLY else "is the slowest part"
    return Diagnosis(
        kind="producers_slow",
        stage=slowest,
        summary=f"{what} {role}: {percent(share)} of the workers' time, while the trainer waits "
        f"{percent(waits)} of its time.",
        evidence=[common.arriving(facts), _demand(facts, waits), *_breakdown(facts)],
        change=" ".join(filter(None, [_one_more(facts), remedy])),
    )


def _load(stage: Stage, shares: Mapping[str, float]) -> float:
    """Return the share of the time in which a stage slows the loop."""
    sending = shares.get("send", 0.0)
    if stage == "push" and sending >= SEND_IS_BUSY:
        return sending
    return share_of(stage, {name: share for name, share in shares.items() if name != "send"}) or 0.0


def _demand(facts: Facts, waits: float) -> str:
    if not facts.handed_out or waits >= 1:
        return f"the trainer waits {percent(waits)} of its time"
    return f"the trainer could consume about {facts.handed_out / (1 - waits):.3g} per second"


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
