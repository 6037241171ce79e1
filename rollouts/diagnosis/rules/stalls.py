"""Diagnosis of runs in which one part prevents progress: crashes, weights, the trainer."""

from typing import Final

from rollouts.diagnosis.rules import phrases
from rollouts.diagnosis.rules.diagnosis import Diagnosis
from rollouts.diagnosis.rules.flow import Facts
from web.rules.amounts import duration

CRASHES: Final = 3
"""Worker crashes in :data:`CRASH_MINUTES` minutes from which they are the diagnosis."""
CRASH_MINUTES: Final = 5
LONG_SECONDS: Final = 60.0
"""A trainer that holds a batch longer may hang; newer weights are overdue after this time. Both
limits are twice as long as the run's last step, or interval of versions, if that is longer.
"""
LATE_SECONDS: Final = 30.0
"""Weights that take longer than this to reach a worker count as not delivered."""


def crashing(facts: Facts) -> Diagnosis | None:
    """Diagnose workers that crash again and again."""
    return _crashing(facts, least=CRASHES)


def still_crashing(facts: Facts) -> Diagnosis | None:
    """Diagnose workers that crashed again and again until a moment ago."""
    return _crashing(facts, least=CRASHES - 1)


def _crashing(facts: Facts, *, least: int) -> Diagnosis | None:
    if facts.kind == "outside":
        return None
    if facts.crashes < least:
        return _crashing_loops(facts)
    missing = max(0, facts.workers_wanted - facts.workers)
    return Diagnosis(
        kind="workers_crash",
        summary=f"Workers crashed {facts.crashes:,} times in {CRASH_MINUTES} min.",
        evidence=[
            *([facts.crash_reason] if facts.crash_reason else []),
            *facts.env_errors,
            f"{missing:,} of {facts.workers_wanted:,} workers are not running",
        ],
        change="Fix the cause that Pipeline lists. Fleet shows the log of each crash.",
    )


def _crashing_loops(facts: Facts) -> Diagnosis | None:
    if facts.loop_crashes < CRASHES:
        return None
    return Diagnosis(
        kind="workers_crash",
        summary=f"Loops of the fleet crashed {facts.loop_crashes:,} times in 2 min.",
        evidence=[facts.loop_error, phrases.arriving(facts)],
        change="Fix the cause that Pipeline lists; the loops restart automatically. "
        + phrases.tracebacks(facts, "loop_crashed"),
    )


def inference_failed(facts: Facts) -> Diagnosis | None:
    """Diagnose a language run whose inference server does not answer."""
    if facts.kind != "language" or not facts.inference_failures:
        return None
    count = facts.inference_failures
    return Diagnosis(
        kind="inference_failed",
        stage="infer",
        summary=f"Generation failed {count:,} time{'' if count == 1 else 's'} in the last 2 min.",
        evidence=[facts.inference_error],
        change="Check the inference server: its address, its log and its memory. Workers retry "
        "automatically.",
    )


def blocked(facts: Facts) -> Diagnosis | None:
    """Diagnose running workers that cannot sample."""
    if facts.kind == "outside" or not facts.workers_blocked:
        return None
    server = " If an inference server is named, check its address, its log and its memory."
    return Diagnosis(
        kind="workers_blocked",
        stage="infer",
        summary=f"{facts.workers_blocked:,} of {facts.workers:,} workers cannot sample.",
        evidence=[facts.block_reason],
        change="Fix the cause that Pipeline lists; workers retry automatically."
        + (server if facts.kind == "language" else ""),
    )


def behind(facts: Facts) -> Diagnosis | None:
    """Diagnose a worker without the newest weights."""
    count = facts.versions_behind
    if facts.kind == "outside" or not count or (facts.behind_seconds or 0.0) < LATE_SECONDS:
        return None
    return _behind(
        facts,
        f"The slowest worker is {phrases.versions(count)} behind the newest published weights.",
        f"a newer version has been available for {duration(facts.behind_seconds or 0.0)}",
    )


def still_behind(facts: Facts) -> Diagnosis | None:
    """Diagnose workers that had the newest weights in the last minute, but late."""
    if facts.kind == "outside" or (facts.load_seconds or 0.0) < LATE_SECONDS:
        return None
    seconds = duration(facts.load_seconds or 0.0)
    return _behind(
        facts,
        f"The slowest worker loads new weights in {seconds}.",
        f"a version that was loaded in the last minute took {seconds}",
    )


def _behind(facts: Facts, summary: str, evidence: str) -> Diagnosis:
    return Diagnosis(
        kind="weights_behind",
        stage="infer",
        summary=summary,
        evidence=[
            f"the newest version is {facts.version}",
            evidence,
            f"workers should receive a version within {duration(LATE_SECONDS)}",
        ],
        change="Open Weights to see which worker lacks the version, and why. Its data "
        "becomes too stale to train on.",
    )


def unpublished(facts: Facts) -> Diagnosis | None:
    """Diagnose a deadlock: workers need newer weights to continue, and no trainer trains."""
    is_idle = facts.holding_seconds is None and facts.batches_waiting < 1
    is_late = (facts.version_age_seconds or 0.0) >= _limit(facts.version_interval_seconds)
    is_held = facts.held_back >= phrases.MOSTLY
    if facts.kind == "outside" or not (is_idle and is_late and is_held):
        return None
    return Diagnosis(
        kind="weights_unpublished",
        stage="train",
        summary=f"No weights were published for "
        f"{duration(facts.version_age_seconds or 0.0)}, and {phrases.limit(facts)} pauses the "
        "workers until the next version.",
        evidence=[
            phrases.held_back(facts),
            f"the newest version is {facts.version}",
            f"{facts.queued:,} {facts.unit} are queued, a batch takes {facts.batch_size or 0:,}",
        ],
        change=f"Publish weights after each train step, or raise {phrases.setting(facts)}.",
    )


def untaken(facts: Facts) -> Diagnosis | None:
    """Diagnose a run without a trainer, or whose next batch is not complete."""
    if facts.trainer_waits is not None:
        return None
    if facts.batch_size is None:
        return Diagnosis(
            kind="no_batch_size",
            stage="train",
            summary="The run has no batch size, so no batch can be formed.",
            evidence=[f"{facts.queued:,} {facts.unit} are queued"],
            change="Register a trainer with a batch size, or set `batch_size` on the run.",
        )
    if facts.queued >= facts.batch_size:
        is_held = facts.is_limited or facts.held_back >= phrases.MOSTLY
        pause = phrases.pause(facts, is_held=is_held)
        return Diagnosis(
            kind="no_trainer",
            stage="train",
            summary=f"No trainer leases the queued batches.{pause}",
            evidence=[
                f"{facts.queued:,} {facts.unit} are queued, a batch takes {facts.batch_size:,}",
                "no batch was leased in the last minute",
            ],
            change="Start the trainer, or check its output: it holds no batch."
            + (f" The {phrases.producers(facts)} then resume automatically." if pause else ""),
        )
    return Diagnosis(
        kind="batch_filling",
        stage="queue",
        summary=f"The next batch is filling: {facts.queued:,} of {facts.batch_size:,} "
        f"{facts.unit}.",
        evidence=[phrases.arriving(facts), "no batch was leased in the last minute"],
    )


def stuck(facts: Facts) -> Diagnosis | None:
    """Diagnose a trainer that holds one batch for long."""
    held, limit = facts.holding_seconds or 0.0, _limit(facts.train_seconds)
    leases = (facts.since_lease_seconds or 0.0) < limit
    if leases or held < limit or facts.trainer_waits is None:
        return None
    return Diagnosis(
        kind="trainer_stuck",
        stage="train",
        summary=f"The trainer has held one batch for {duration(held)} (limit {duration(limit)}).",
        evidence=[
            f"no batch was leased for {duration(facts.since_lease_seconds or 0.0)}",
            *phrases.waiting_batches(facts),
        ],
        change="If train steps should be shorter, check the trainer's output: it may hang. When "
        "the lease expires, the next trainer that asks gets the batch.",
    )


def _limit(usual_seconds: float | None) -> float:
    """Return the time after which something is overdue that usually takes `usual_seconds`."""
    return max(LONG_SECONDS, 2 * (usual_seconds or 0.0))
