"""States of a run and the transitions between them.

    draft → queued → starting → running ⇄ paused → draining → completed | stopped | failed

Every status change uses :func:`sources_of`: the update names the allowed source states, and zero
changed rows raise :class:`MoveNotAllowed`.
"""

from enum import StrEnum
from typing import Final

from web.rules.errors import Conflict


class RunStatus(StrEnum):
    """Status of a run."""

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
    """Action that a person or the platform may request for a run."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    STOP = "stop"
    KILL = "kill"


TRANSITIONS: Final[dict[RunStatus, frozenset[RunStatus]]] = {
    RunStatus.DRAFT: frozenset({RunStatus.QUEUED, RunStatus.STOPPED}),
    # An outside run (without a fleet) goes from queued directly to running.
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
    # A stopped or failed run may be restarted: a new attempt with the same history.
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
# Existing data is still accepted while a run is paused or draining.
ACCEPTING: Final = ACTIVE

VERB_TARGETS: Final[dict[RunVerb, RunStatus]] = {
    RunVerb.START: RunStatus.QUEUED,
    RunVerb.PAUSE: RunStatus.PAUSED,
    RunVerb.RESUME: RunStatus.RUNNING,
    RunVerb.DRAIN: RunStatus.DRAINING,
    RunVerb.STOP: RunStatus.DRAINING,
    RunVerb.KILL: RunStatus.STOPPED,
}


class MoveNotAllowed(Conflict):
    """The verb is not allowed in the run's current status."""

    code = "move_not_allowed"
    title = "Not possible in this state"


def sources_of(target: RunStatus) -> frozenset[RunStatus]:
    """Return the states from which a run may move to `target`."""
    return frozenset(source for source, targets in TRANSITIONS.items() if target in targets)


def sources_of_verb(verb: RunVerb) -> frozenset[RunStatus]:
    """Return the states in which `verb` is allowed."""
    if verb is RunVerb.RESUME:
        return frozenset({RunStatus.PAUSED})
    if verb is RunVerb.KILL:
        return sources_of(RunStatus.STOPPED)
    # A drain without a trainer would never end: stop adds a deadline.
    if verb is RunVerb.STOP:
        return sources_of(RunStatus.DRAINING) | {RunStatus.DRAINING}
    return sources_of(VERB_TARGETS[verb])


def allowed_verbs(status: RunStatus) -> list[RunVerb]:
    """Return the verbs allowed in `status`, in lifecycle order."""
    return [verb for verb in RunVerb if status in sources_of_verb(verb)]
