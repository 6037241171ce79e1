"""List the states of a run and the moves between them.

    draft → queued → starting → running ⇄ paused → draining → completed | stopped | failed

Every change of a run's status goes through :func:`sources_of`: the update names the
states it may come from, and zero rows changed is the error :class:`MoveNotAllowed`.
"""

from enum import StrEnum
from typing import Final


class RunStatus(StrEnum):
    """Where a run stands in its life."""

    DRAFT = "draft"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"


class RunVerb(StrEnum):
    """What a person or the platform may ask of a run."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    STOP = "stop"
    KILL = "kill"


MOVES: Final[dict[RunStatus, frozenset[RunStatus]]] = {
    RunStatus.DRAFT: frozenset({RunStatus.QUEUED, RunStatus.STOPPED}),
    # An outside run (no fleet of ours) goes from queued straight to running.
    RunStatus.QUEUED: frozenset(
        {
            RunStatus.STARTING,
            RunStatus.RUNNING,
            RunStatus.PAUSED,
            RunStatus.DRAINING,
            RunStatus.STOPPED,
            RunStatus.FAILED,
        }
    ),
    RunStatus.STARTING: frozenset(
        {
            RunStatus.RUNNING,
            RunStatus.PAUSED,
            RunStatus.DRAINING,
            RunStatus.STOPPED,
            RunStatus.FAILED,
        }
    ),
    RunStatus.RUNNING: frozenset(
        {
            RunStatus.PAUSED,
            RunStatus.DRAINING,
            RunStatus.COMPLETED,
            RunStatus.STOPPED,
            RunStatus.FAILED,
        }
    ),
    RunStatus.PAUSED: frozenset(
        {
            RunStatus.RUNNING,
            RunStatus.DRAINING,
            RunStatus.COMPLETED,
            RunStatus.STOPPED,
            RunStatus.FAILED,
        }
    ),
    RunStatus.DRAINING: frozenset({RunStatus.COMPLETED, RunStatus.STOPPED, RunStatus.FAILED}),
    RunStatus.COMPLETED: frozenset(),
    # A stopped or failed run may be started again: the next attempt, the same history.
    RunStatus.STOPPED: frozenset({RunStatus.QUEUED}),
    RunStatus.FAILED: frozenset({RunStatus.QUEUED}),
}

TERMINAL: Final = frozenset({RunStatus.COMPLETED, RunStatus.STOPPED, RunStatus.FAILED})
ACTIVE: Final = frozenset(
    {
        RunStatus.QUEUED,
        RunStatus.STARTING,
        RunStatus.RUNNING,
        RunStatus.PAUSED,
        RunStatus.DRAINING,
    }
)
# Data already made is still accepted while a run is paused or draining.
ACCEPTING: Final = ACTIVE

VERB_TARGETS: Final[dict[RunVerb, RunStatus]] = {
    RunVerb.START: RunStatus.QUEUED,
    RunVerb.PAUSE: RunStatus.PAUSED,
    RunVerb.RESUME: RunStatus.RUNNING,
    RunVerb.DRAIN: RunStatus.DRAINING,
    RunVerb.STOP: RunStatus.DRAINING,
    RunVerb.KILL: RunStatus.STOPPED,
}


class MoveNotAllowed(Exception):
    """The run is not in a state that this verb may leave."""


def sources_of(target: RunStatus) -> frozenset[RunStatus]:
    """Return the states from which a run may move to `target`."""
    return frozenset(source for source, targets in MOVES.items() if target in targets)


def sources_of_verb(verb: RunVerb) -> frozenset[RunStatus]:
    """Return the states in which `verb` may be asked."""
    if verb is RunVerb.RESUME:
        return frozenset({RunStatus.PAUSED})
    if verb is RunVerb.KILL:
        return sources_of(RunStatus.STOPPED)
    # A drain whose trainer has gone would never end: stop gives it a deadline.
    if verb is RunVerb.STOP:
        return sources_of(RunStatus.DRAINING) | {RunStatus.DRAINING}
    return sources_of(VERB_TARGETS[verb])


def allowed_verbs(status: RunStatus) -> list[RunVerb]:
    """Return what may be asked of a run in `status`, in the order of its life."""
    return [verb for verb in RunVerb if status in sources_of_verb(verb)]
