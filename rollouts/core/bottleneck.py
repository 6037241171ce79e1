"""Name what holds a run up, with the numbers that prove it and what would change it.

The first rule that applies gives the verdict. Rules that need both sides of the queue come before
those that look at one: a trainer that waits says nothing of workers that may not go on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rollouts.core.flow import Facts, Stage, share_of, stages

MOSTLY: Final = 0.5
NOTABLY: Final = 0.3
SELDOM: Final = 0.2
"""Of a trainer that waits no more than this, the trainer is the bottleneck."""
LONG_SECONDS: Final = 60.0
"""A trainer that holds a batch for longer may hang."""
FULL_BATCHES: Final = 2.0
"""So many whole batches wait while a trainer does: no want of data."""

_MOVES: Final = frozenset({"queued", "starting", "running", "draining"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What holds a run up."""

    sentence: str
    stage: Stage | None = None
    """Null: nothing does, or nobody can tell."""
    proof: list[str] = field(default_factory=list)
    """The numbers behind the sentence, each in a few words."""
    change: str = ""
    """What to do about it; empty where there is nothing to do."""


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


def _over(facts: Facts) -> Verdict | None:
    if facts.status in _MOVES:
        return None
    return Verdict(sentence=f"The run is {facts.status}: nothing has to move.")


def _silent(facts: Facts) -> Verdict | None:
    is_silent = not facts.shares and facts.arriving is None and facts.trainer_waits is None
    if not is_silent or facts.queued:
        return None
    return Verdict(
        sentence="Nothing moved in the last minute.",
        proof=["no data came in", "no trainer had a batch"],
        change="The trainer's command stands on the overview; the log of a fleet on its tab."
        if facts.kind != "outside"
        else "Start the environments and the trainer; API & tokens has their commands.",
    )


def _without_weights(facts: Facts) -> Verdict | None:
    waiting = facts.shares.get("waiting_weights", 0.0)
    if waiting < MOSTLY or facts.kind == "outside":
        return None
    return Verdict(
        stage="train" if facts.trainer_waits is None else "infer",
        sentence=f"Workers have no weights to act with for {waiting:.0%} of their time.",
        proof=[f"workers wait for weights {waiting:.0%} of the time"],
        change="Start the trainer: it publishes the weights it begins with."
        if facts.trainer_waits is None
        else "Look at the Weights tab: which worker did not get the version, and why.",
    )


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
        return Verdict(
            stage="train",
            sentence="No trainer takes the batches that wait.",
            proof=[
                f"{facts.queued:,} {facts.unit} wait, a batch takes {facts.batch_size:,}",
                "none was handed out in the last minute",
            ],
            change="Start the trainer, or look at what it does: it holds no batch either.",
        )
    return Verdict(
        stage="queue",
        sentence=f"The next batch is filling: {facts.queued:,} of {facts.batch_size:,} "
        f"{facts.unit}.",
        proof=[_arriving(facts), "no batch was handed out in the last minute"],
    )


def _taking_turns(facts: Facts) -> Verdict | None:
    waits = facts.trainer_waits or 0.0
    if min(waits, facts.held_back) < NOTABLY:
        return None
    return Verdict(
        stage="queue",
        sentence="Trainer and workers take turns: each waits while the other is at work.",
        proof=[
            f"the trainer waits {waits:.0%} of its time for data",
            f"workers may not go on {facts.held_back:.0%} of theirs, for want of room",
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
        sentence=f"The trainer has held one batch for {_for(held)}.",
        proof=["no batch was handed out in the last minute", *_waiting_batches(facts)],
        change="If its train steps should take less, look at its own output: it may hang. When "
        "the lease runs out the batch goes to whoever asks next.",
    )


def _trainer_bound(facts: Facts) -> Verdict | None:
    waits = facts.trainer_waits
    if waits is None or waits > SELDOM:
        return None
    proof = [f"the trainer waits {waits:.0%} of its time for data"]
    if facts.train_seconds is not None:
        proof.append(f"it holds a batch for {facts.train_seconds:.3g} s")
    proof += _waiting_batches(facts)
    change = "Make train steps faster; more data would only wait longer."
    if facts.held_back >= NOTABLY and facts.workers > 1:
        proof.append(f"workers may not go on {facts.held_back:.0%} of their time")
        enough = max(1, math.ceil(facts.workers * (1 - facts.held_back)))
        if enough < facts.workers:
            change += f" {enough} of the {facts.workers} workers would be enough for this trainer."
    return Verdict(
        stage="train",
        sentence=f"The trainer is the bottleneck: it is at work {1 - waits:.0%} of the time.",
        proof=proof,
        change=change,
    )


def _delivery_bound(facts: Facts) -> Verdict | None:
    waits, share = facts.trainer_waits or 0.0, facts.delivery_share or 0.0
    if share < NOTABLY or share < waits / 2:
        return None
    return Verdict(
        stage="batch",
        sentence=f"Batches are on their way to the trainer {share:.0%} of the time.",
        proof=[
            f"a batch takes {facts.delivery_seconds or 0.0:.3g} s from its lease to its last byte",
            f"the trainer waits {waits:.0%} of its time",
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
            f"the trainer waits {waits:.0%} of its time",
        ],
        change="Look at the next batch on the Queue tab: an environment's minimum may be missing, "
        "or the trainer may ask late.",
    )


_RULES: Final[tuple[Callable[[Facts], Verdict | None], ...]] = (
    _over,
    _silent,
    _without_weights,
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
        sentence=f"{what} {said}: {share:.0%} of the workers' time, while the trainer waits "
        f"{waits:.0%} of its.",
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
        sentence=f"{who} {said}: the trainer waits {waits:.0%} of its time for data.",
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
        return f"the trainer waits {waits:.0%} of its time"
    return f"the trainer could take about {facts.handed_out / (1 - waits):.3g} a second"


def _waiting_batches(facts: Facts) -> list[str]:
    whole = int(facts.batches_waiting)
    return [f"{whole:,} more {'waits' if whole == 1 else 'wait'}"] if whole else []


def _for(seconds: float) -> str:
    """Return a time in the unit in which people say it."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _breakdown(facts: Facts) -> list[str]:
    shares = [(share_of(stage, facts.shares) or 0.0, stage) for stage in _PRODUCING]
    said = [f"{stage} {share:.0%}" for share, stage in shares if share >= 0.005]
    return [f"workers' time: {', '.join(said)}"] if said else []


def _one_more(facts: Facts) -> str:
    gain = gain_of_a_worker(facts)
    if gain is None or gain < 0.005:
        return ""
    workers = f"{facts.workers} worker{'' if facts.workers == 1 else 's'}"
    return f"Add workers: one more beside the {workers} would give about +{gain:.0%}."
