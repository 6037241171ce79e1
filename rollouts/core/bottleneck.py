"""Name what holds a run up, with the numbers that prove it and what would change it.

The first rule that applies gives the verdict. Rules that need both sides of the queue come before
those that look at one: a trainer that waits says nothing of workers that may not go on.
"""

import math
from collections.abc import Callable
from typing import Final

from rollouts.core import standstill
from rollouts.core.flow import Facts, Stage, share_of, stages
from rollouts.core.verdict import Verdict
from runs.core.amounts import duration, percent

MOSTLY: Final = 0.5
NOTABLY: Final = 0.3
SELDOM: Final = 0.2
"""Of a trainer that waits no more than this, the trainer is the bottleneck."""
LONG_SECONDS: Final = 60.0
"""A trainer that holds a batch for longer may hang; weights that come later are overdue."""
LATE_SECONDS: Final = 30.0
"""Weights that take longer to a worker do not reach it."""
FULL_BATCHES: Final = 2.0
"""So many whole batches wait while a trainer does: no want of data."""


def judge(facts: Facts) -> Verdict:
    """Return what holds a run up."""
    for rule in _RULES:
        if (found := rule(facts)) is not None:
            return found
    return _of_producers(facts)


def gain_of_a_worker(facts: Facts) -> float | None:
    """Return what part faster a run would be with one worker more, if workers hold it up.

    Workers share nothing but the queue, so n + 1 make (n + 1) / n of what n make, up to where the
    trainer never waits.
    """
    if not facts.workers or facts.trainer_waits is None:
        return None
    most = math.inf if facts.trainer_waits >= 1 else 1 / (1 - facts.trainer_waits)
    return min(1 + 1 / facts.workers, most) - 1


def _behind(facts: Facts) -> Verdict | None:
    behind = facts.versions_behind
    if facts.kind == "outside" or not behind or (facts.behind_seconds or 0.0) < LATE_SECONDS:
        return None
    return Verdict(
        stage="infer",
        sentence="Weights do not reach the workers: "
        f"what one acts with is {_versions(behind)} old.",
        proof=[
            f"the newest version is {facts.version}",
            f"a newer one has been there for {duration(facts.behind_seconds or 0.0)}",
        ],
        change="Look at Weights: which worker did not get the version, and why. What it samples "
        "grows too old to train on.",
    )


def _unpublished(facts: Facts) -> Verdict | None:
    """Judge a deadlock: workers may go no further without weights, and nobody trains."""
    is_idle = facts.holding_seconds is None and facts.batches_waiting < 1
    is_late = (facts.version_age_seconds or 0.0) >= LONG_SECONDS
    is_held = facts.held_back >= MOSTLY
    if facts.kind == "outside" or not (is_idle and is_late and is_held):
        return None
    return Verdict(
        stage="train",
        sentence=f"The weights are stale: none were published for "
        f"{duration(facts.version_age_seconds or 0.0)}, and workers may go no further without.",
        proof=[
            f"workers may not go on {percent(facts.held_back)} of their time",
            f"the newest version is {facts.version}",
            f"{facts.queued:,} {facts.unit} wait, a batch takes {facts.batch_size or 0:,}",
        ],
        change="Publish weights after each train step, or let workers go further ahead: raise "
        "max_staleness (or off_policy_tolerance).",
    )


def _versions(count: int) -> str:
    return f"{count:,} version{'' if count == 1 else 's'}"


def _untaken(facts: Facts) -> Verdict | None:
    if facts.trainer_waits is not None:
        return None
    if facts.batch_size is None:
        return Verdict(
            stage="train",
            sentence="No trainer has registered yet, so nobody knows how large a batch is.",
            proof=[f"{facts.queued:,} {facts.unit} wait"],
            change="Start the trainer.",
        )
    if facts.queued >= facts.batch_size:
        is_full = facts.is_full or facts.held_back >= MOSTLY
        pause = f" The buffer is full, so {_producers(facts)} pause." if is_full else ""
        return Verdict(
            stage="train",
            sentence=f"No trainer takes the batches that wait.{pause}",
            proof=[
                f"{facts.queued:,} {facts.unit} wait, a batch takes {facts.batch_size:,}",
                "none was handed out in the last minute",
            ],
            change="Start the trainer, or look at what it does: it holds no batch either."
            + (f" The {_producers(facts)} go on by themselves." if is_full else ""),
        )
    return Verdict(
        stage="queue",
        sentence=f"The next batch is filling: {facts.queued:,} of {facts.batch_size:,} "
        f"{facts.unit}.",
        proof=[_arriving(facts), "no batch was handed out in the last minute"],
    )


def _producers(facts: Facts) -> str:
    return "environments" if facts.kind == "outside" else "workers"


def _taking_turns(facts: Facts) -> Verdict | None:
    waits = facts.trainer_waits or 0.0
    if min(waits, facts.held_back) < NOTABLY:
        return None
    return Verdict(
        stage="queue",
        sentence="Trainer and workers take turns: each waits while the other is at work.",
        proof=[
            f"the trainer waits {percent(waits)} of its time for data",
            f"workers may not go on {percent(facts.held_back)} of theirs, for want of room",
        ],
        change="Let workers go further ahead: raise max_staleness (or off_policy_tolerance) by "
        "one, if your algorithm bears data that is one version older.",
    )


def _stuck(facts: Facts) -> Verdict | None:
    held = facts.holding_seconds or 0.0
    if facts.handed_out is not None or held < LONG_SECONDS or facts.trainer_waits is None:
        return None
    return Verdict(
        stage="train",
        sentence=f"The trainer has held one batch for {duration(held)}.",
        proof=["no batch was handed out in the last minute", *_waiting_batches(facts)],
        change="If its train steps should take less, look at its own output: it may hang. When "
        "the lease runs out the batch goes to whoever asks next.",
    )


def _trainer_bound(facts: Facts) -> Verdict | None:
    waits = facts.trainer_waits
    if waits is None or waits > SELDOM:
        return None
    proof = [f"the trainer waits {percent(waits)} of its time for data"]
    if facts.train_seconds is not None:
        proof.append(f"it holds a batch for {facts.train_seconds:.3g} s")
    proof += _waiting_batches(facts)
    change = "Make train steps faster; more data would only wait longer."
    if facts.held_back >= NOTABLY and facts.workers > 1:
        proof.append(f"workers may not go on {percent(facts.held_back)} of their time")
        enough = max(1, math.ceil(facts.workers * (1 - facts.held_back)))
        if enough < facts.workers:
            change += f" {enough} of the {facts.workers} workers would be enough for this trainer."
    is_full = facts.held_back >= NOTABLY or (facts.is_full and facts.kind == "outside")
    pause = f" The buffer is full, so {_producers(facts)} pause meanwhile." if is_full else ""
    return Verdict(
        stage="train",
        sentence=f"The trainer is the bottleneck: it is at work {percent(1 - waits)} of the time."
        f"{pause}",
        proof=proof,
        change=change,
    )


def _delivery_bound(facts: Facts) -> Verdict | None:
    waits, share = facts.trainer_waits or 0.0, facts.delivery_share or 0.0
    if share < NOTABLY or share < waits / 2:
        return None
    return Verdict(
        stage="batch",
        sentence=f"Batches are on their way to the trainer {percent(share)} of the time.",
        proof=[
            f"a batch takes {facts.delivery_seconds or 0.0:.3g} s from its lease to its last byte",
            f"the trainer waits {percent(waits)} of its time",
        ],
        change="Fetch the next batch while training on this one, bring the trainer nearer to "
        "the deck, or push smaller observations (uint8 instead of float32).",
    )


def _not_formed(facts: Facts) -> Verdict | None:
    waits = facts.trainer_waits or 0.0
    if waits < NOTABLY or facts.batches_waiting < FULL_BATCHES:
        return None
    return Verdict(
        stage="batch",
        sentence="Enough waits for whole batches, and still the trainer waits.",
        proof=[
            f"{facts.queued:,} {facts.unit} wait, batches take {facts.batch_size or 0:,}",
            f"the trainer waits {percent(waits)} of its time",
        ],
        change="Look at the next batch on the Queue tab: an environment's minimum may be missing, "
        "or the trainer may ask late.",
    )


_RULES: Final[tuple[Callable[[Facts], Verdict | None], ...]] = (
    standstill.over,
    standstill.paused,
    standstill.unheard,
    standstill.starting,
    standstill.without_workers,
    standstill.without_weights,
    standstill.draining,
    standstill.silent,
    _behind,
    _unpublished,
    _untaken,
    _taking_turns,
    _stuck,
    _trainer_bound,
    _delivery_bound,
    _not_formed,
)


def _of_producers(facts: Facts) -> Verdict:
    """Judge a run whose trainer waits because too little comes in."""
    waits = facts.trainer_waits or 0.0
    if facts.kind == "outside" or not facts.shares:
        return _of_outsiders(facts, waits)
    seen = [stage.name for stage in stages(facts) if stage.name in _PRODUCING]
    busiest: Stage = max(seen, key=lambda stage: share_of(stage, facts.shares) or 0.0)
    share = share_of(busiest, facts.shares) or 0.0
    what, help_ = _PRODUCING[busiest]
    said = "is the bottleneck" if waits >= MOSTLY else "is the slowest part"
    return Verdict(
        stage=busiest,
        sentence=f"{what} {said}: {percent(share)} of the workers' time, while the trainer waits "
        f"{percent(waits)} of its.",
        proof=[_arriving(facts), _wanted(facts, waits), *_breakdown(facts)],
        change=" ".join(filter(None, [_one_more(facts), help_])),
    )


_PRODUCING: Final[dict[Stage, tuple[str, str]]] = {
    "step": (
        "Stepping environments",
        "Cheaper environments help, or more processes to step them (envs_per_process lower).",
    ),
    "infer": (
        "The policy's inference",
        "A GPU for the workers helps, or a larger inference_batch_size.",
    ),
    "push": (
        "Cutting and sending what was sampled",
        "A faster way to the deck helps, or smaller observations (uint8 instead of float32).",
    ),
}


def _of_outsiders(facts: Facts, waits: float) -> Verdict:
    who = "The environments" if facts.kind == "outside" else "The workers"
    said = "are the bottleneck" if waits >= MOSTLY else "nearly keep pace"
    return Verdict(
        stage="push",
        sentence=f"{who} {said}: the trainer waits {percent(waits)} of its time for data.",
        proof=[_arriving(facts), _wanted(facts, waits)],
        change="Run more environments, or have each sample more at once. What they spend their "
        "time on lies outside of what the deck sees."
        if facts.kind == "outside"
        else "Add workers.",
    )


def _arriving(facts: Facts) -> str:
    if facts.arriving is None:
        return "nothing came in during the last minute"
    return f"{facts.arriving:.3g} {facts.unit} come in each second"


def _wanted(facts: Facts, waits: float) -> str:
    if not facts.handed_out or waits >= 1:
        return f"the trainer waits {percent(waits)} of its time"
    return f"the trainer could take about {facts.handed_out / (1 - waits):.3g} a second"


def _waiting_batches(facts: Facts) -> list[str]:
    whole = int(facts.batches_waiting)
    return [f"{whole:,} more {'waits' if whole == 1 else 'wait'}"] if whole else []


def _breakdown(facts: Facts) -> list[str]:
    shares = [(share_of(stage, facts.shares) or 0.0, stage) for stage in _PRODUCING]
    said = [f"{stage} {percent(share)}" for share, stage in shares if share >= 0.005]
    return [f"workers' time: {', '.join(said)}"] if said else []


def _one_more(facts: Facts) -> str:
    gain = gain_of_a_worker(facts)
    if gain is None or gain < 0.005:
        return ""
    workers = f"{facts.workers} worker{'' if facts.workers == 1 else 's'}"
    return f"Add workers: one more beside the {workers} would give about +{percent(gain)}."
