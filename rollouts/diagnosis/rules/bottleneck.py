"""The bottleneck of a run, with the numbers that prove it and what to do about it.

The first rule that applies gives the verdict. Rules about both sides of the queue come before rules
about one side: a waiting trainer proves nothing against workers that a limit holds back.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from rollouts.diagnosis.rules import idle_diagnosis as standstill
from rollouts.diagnosis.rules.diagnosis import Verdict
from rollouts.diagnosis.rules.flow import Facts, Stage, share_of, stages
from runs.core.amounts import duration, percent

MOSTLY: Final = 0.5
NOTABLY: Final = 0.3
SELDOM: Final = 0.2
"""Share up to which waiting does not count: a trainer that waits no more is the bottleneck, and
workers that are held back no more are not slowed by a limit."""
NEVER: Final = 0.05
"""Share up to which a trainer counts as never waiting."""
SEND_IS_BUSY: Final = 0.9
"""Sending goes on beside the loop: below this share it slows nothing."""
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
    """Return the expected speedup from one more worker, as a part of the present speed.

    Workers share only the queue, so n + 1 make (n + 1) / n of what n make, up to where the trainer
    never waits. None: unknown, or a limit holds the present workers back.
    """
    if not facts.workers or facts.trainer_waits is None or facts.held_back > SELDOM:
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
    """Diagnose a deadlock: workers need newer weights to go on, and no trainer trains."""
    is_idle = facts.holding_seconds is None and facts.batches_waiting < 1
    is_late = (facts.version_age_seconds or 0.0) >= LONG_SECONDS
    is_held = facts.held_back >= MOSTLY
    if facts.kind == "outside" or not (is_idle and is_late and is_held):
        return None
    return Verdict(
        stage="train",
        sentence=f"The weights are stale: none were published for "
        f"{duration(facts.version_age_seconds or 0.0)}, and {_limit(facts)} holds the workers "
        "back until then.",
        proof=[
            _held_back(facts),
            f"the newest version is {facts.version}",
            f"{facts.queued:,} {facts.unit} wait, a batch takes {facts.batch_size or 0:,}",
        ],
        change=f"Publish weights after each train step, or raise {_setting(facts)}.",
    )


def _versions(count: int) -> str:
    return f"{count:,} version{'' if count == 1 else 's'}"


def _untaken(facts: Facts) -> Verdict | None:
    if facts.trainer_waits is not None:
        return None
    if facts.batch_size is None:
        return Verdict(
            stage="train",
            sentence="The run has no batch size, so no batch can be formed.",
            proof=[f"{facts.queued:,} {facts.unit} wait"],
            change="Register a trainer with a batch size, or set `batch_size` on the run.",
        )
    if facts.queued >= facts.batch_size:
        pause = _pause(facts, is_held=facts.is_limited or facts.held_back >= MOSTLY)
        return Verdict(
            stage="train",
            sentence=f"No trainer takes the batches that wait.{pause}",
            proof=[
                f"{facts.queued:,} {facts.unit} wait, a batch takes {facts.batch_size:,}",
                "none was handed out in the last minute",
            ],
            change="Start the trainer, or look at what it does: it holds no batch either."
            + (f" The {_producers(facts)} go on by themselves." if pause else ""),
        )
    return Verdict(
        stage="queue",
        sentence=f"The next batch is filling: {facts.queued:,} of {facts.batch_size:,} "
        f"{facts.unit}.",
        proof=[_arriving(facts), "no batch was handed out in the last minute"],
    )


def _producers(facts: Facts) -> str:
    return "environments" if facts.kind == "outside" else "workers"


def _pause(facts: Facts, *, is_held: bool) -> str:
    """Return a sentence about the limit that keeps producers from going on, with a space before.

    A full queue and the staleness limit differ: the second holds workers back at an empty queue.
    """
    if facts.is_full:
        return f" The queue is full, so {_producers(facts)} pause."
    if is_held and facts.kind != "outside":
        limit = _limit(facts)
        return f" {limit[0].upper()}{limit[1:]} holds workers back."
    return ""


def _limit(facts: Facts) -> str:
    """Name the limit on data that workers make ahead of the trainer."""
    if facts.max_staleness is None:
        return "the off-policy tolerance"
    return f"the staleness limit (max_staleness {facts.max_staleness:,})"


def _setting(facts: Facts) -> str:
    return "off_policy_tolerance" if facts.max_staleness is None else "max_staleness"


def _held_back(facts: Facts) -> str:
    return f"{_limit(facts)} holds workers back {percent(facts.held_back)} of their time"


def _taking_turns(facts: Facts) -> Verdict | None:
    waits = facts.trainer_waits or 0.0
    if min(waits, facts.held_back) <= SELDOM:
        return None
    return Verdict(
        stage="queue",
        sentence="Trainer and workers take turns: each waits while the other is at work.",
        proof=[
            f"the trainer waits {percent(waits)} of its time for data",
            _held_back(facts),
        ],
        change=f"Raise {_setting(facts)} by one to let workers go further ahead, if your algorithm "
        "tolerates data that is one version older.",
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
        proof.append(_held_back(facts))
        enough = max(1, math.ceil(facts.workers * (1 - facts.held_back)))
        if enough < facts.workers and waits <= NEVER:
            change += f" {enough} of the {facts.workers} workers would be enough for this trainer."
    return Verdict(
        stage="train",
        sentence=f"The trainer is the bottleneck: it is at work {percent(1 - waits)} of the time."
        f"{_pause(facts, is_held=facts.held_back >= NOTABLY)}",
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
    standstill.refused,
    standstill.without_trainer,
    standstill.silent,
    _behind,
    _unpublished,
    _untaken,
    _taking_turns,
    _stuck,
    _trainer_bound,
    standstill.over_tolerance,
    _delivery_bound,
    _not_formed,
)


def _of_producers(facts: Facts) -> Verdict:
    """Diagnose a run whose trainer waits because too little comes in."""
    waits = facts.trainer_waits or 0.0
    if facts.kind == "outside" or not facts.shares:
        return _of_outsiders(facts, waits)
    seen = [stage.name for stage in stages(facts) if stage.name in _PRODUCING]
    busiest: Stage = max(seen, key=lambda stage: _load(stage, facts.shares))
    share = share_of(busiest, facts.shares) or 0.0
    what, help_ = _PRODUCING[busiest]
    said = "is the bottleneck" if waits >= MOSTLY else "is the slowest part"
    return Verdict(
        stage=busiest,
        sentence=f"{what} {said}: {percent(share)} of the workers' time, "
        f"while the trainer waits {percent(waits)} of its.",
        proof=[_arriving(facts), _wanted(facts, waits), *_breakdown(facts)],
        change=" ".join(filter(None, [_one_more(facts), help_])),
    )


def _load(stage: Stage, shares: Mapping[str, float]) -> float:
    """Return the part of the workers' time in which a stage keeps their loops busy."""
    sending = shares.get("send", 0.0)
    if stage == "push" and sending >= SEND_IS_BUSY:
        return sending
    return share_of(stage, {name: share for name, share in shares.items() if name != "send"}) or 0.0


_PRODUCING: Final[dict[Stage, tuple[str, str]]] = {
    "step": (
        "Stepping environments",
        "Cheaper environments help, or more processes to step them (envs_per_process lower).",
    ),
    "exchange": (
        "Exchanging observations and actions with environments",
        "A larger envs_per_process or inference_batch_size helps, or envs_in_worker.",
    ),
    "infer": (
        "The policy's inference",
        "A GPU for the workers helps, or a larger inference_batch_size.",
    ),
    "push": (
        "Cutting and sending fragments",
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
