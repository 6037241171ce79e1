"""States, registrations and policy versions of a run, without Django.

States of a run and the transitions between them.

    draft → queued → starting → running ⇄ paused → draining → completed | stopped | failed

Every status change uses :func:`sources_of`: the update names the allowed source states, and zero
changed rows raise :class:`MoveNotAllowed`.

Addresses of runs.

A run is addressed by its id, `run_` and 24 hexadecimal digits, which never changes and which no
name may look like, or by its name. Archiving frees the name, so several archived runs may share it:
`name` then means the current run, or the one archived last where none is current, and
`name--id` means one archived run. A run whose own name has this form takes precedence.

Order the policy versions of a run and measure how far apart they are.

Train step n (from 1) consumes data and updates policy version n − 1; publishing makes
version n. A trainer publishes the weights it starts with as version 0. A restored trainer
opens a new epoch, so going back to an older step is legal and unambiguous.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

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


_FAILURES: Final = frozenset({RunStatus.STOPPED, RunStatus.FAILED})
_ENDS: Final = _FAILURES | {RunStatus.COMPLETED}
TRANSITIONS: Final[dict[RunStatus, frozenset[RunStatus]]] = {
    RunStatus.DRAFT: frozenset({RunStatus.QUEUED, RunStatus.STOPPED}),
    # An outside run (without a fleet) goes from queued directly to running.
    RunStatus.QUEUED: _FAILURES
    | {RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.DRAINING},
    RunStatus.STARTING: _FAILURES | {RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.DRAINING},
    RunStatus.RUNNING: _ENDS | {RunStatus.PAUSED, RunStatus.DRAINING},
    RunStatus.PAUSED: _ENDS | {RunStatus.RUNNING, RunStatus.DRAINING},
    RunStatus.DRAINING: _ENDS,
    RunStatus.COMPLETED: frozenset(),
    # A stopped or failed run may be restarted: a new attempt with the same history.
    RunStatus.STOPPED: frozenset({RunStatus.QUEUED}),
    RunStatus.FAILED: frozenset({RunStatus.QUEUED}),
}

TERMINAL: Final = _ENDS
ACTIVE: Final = frozenset(
    {RunStatus.QUEUED, RunStatus.STARTING, RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.DRAINING}
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


# Map a run's status to the state desired of its data producers.

Desired = Literal["running", "paused", "draining", "stopped"]

DESIRED: Final[dict[RunStatus, Desired]] = {
    RunStatus.DRAFT: "paused",
    RunStatus.QUEUED: "paused",
    RunStatus.STARTING: "running",
    RunStatus.RUNNING: "running",
    RunStatus.PAUSED: "paused",
    RunStatus.DRAINING: "draining",
    RunStatus.COMPLETED: "stopped",
    RunStatus.STOPPED: "stopped",
    RunStatus.FAILED: "stopped",
}


# Trainer registrations and the epochs that they open.

SEEN_EVERY: Final = timedelta(seconds=15)
"""An environment's calls renew `last_seen_at` at most this often."""
SILENT_AFTER: Final = timedelta(minutes=2)
"""An environment without a call for this long counts as disconnected until its next call."""


def was_seen_recently(last_seen_at: datetime, *, now: datetime) -> bool:
    """Return whether an environment has made a call within :data:`SILENT_AFTER`."""
    return now - last_seen_at <= SILENT_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Registration of an Atropos trainer, with the field names of its protocol.

    `batch_size` counts sequences, `max_token_len` tokens; `save_checkpoint_interval`,
    `starting_step` and `num_steps` count train steps.
    """

    wandb_group: str | None = None
    wandb_project: str | None = None
    batch_size: int
    max_token_len: int
    checkpoint_dir: str = ""
    save_checkpoint_interval: int = 0
    starting_step: int = 0
    num_steps: int = 0


Differences = dict[str, dict[str, Any]]
"""The registered value and that of the run, by the name of the setting."""


def differences(registration: Registration, run: Mapping[str, Any]) -> Differences | None:
    """Return the settings of a registration that differ from those of its run, or None."""
    found = {
        setting.name: {"registered": value, "run": run[setting.name]}
        for setting in fields(registration)
        if (value := getattr(registration, setting.name)) != run[setting.name]
    }
    return found or None


def describe_differences(found: Differences) -> str:
    """Return differences in words: ``batch_size 32, not 64``."""
    return "; ".join(
        f"{name} {values['registered']!r}, not {values['run']!r}"
        for name, values in sorted(found.items())
    )


def opens_epoch(
    *, epoch: int, published: bool, known: bool, resume: bool, is_fleet: bool, is_stock: bool
) -> bool:
    """Return whether a registration opens a new epoch of its run.

    Args:
        epoch: Epoch of the run; 0 before the first trainer of the first run of a name.
        published: The current epoch has at least one policy version.
        known: The same identity has registered in this run before.
        resume: The trainer continues its previous session.
        is_fleet: The run's data carries the epoch it was sampled in.
        is_stock: The registration came over the Atropos routes, which have no epochs: a second
            registration there is a further trainer, and queued items remain valid.
    """
    if epoch == 0:
        return True
    if resume or is_stock:
        return False
    return published or (known and is_fleet)


RUN_UID: Final = re.compile(r"run_[0-9a-f]{24}")
"""Form of the immutable id of a run; no name has it."""


def is_run_uid(address: str) -> bool:
    """Return whether an address is the immutable id of a run."""
    return RUN_UID.fullmatch(address) is not None


# 18 digits: any id fits the largest column of the database.
_ARCHIVED: Final = re.compile(r"(.+)--([0-9]{1,18})")


class ArchivedRun(NamedTuple):
    """The name and the id in the address of an archived run."""

    name: str
    run_id: int


def parse_archived(address: str) -> ArchivedRun | None:
    """Return the name and id in `name--id`, or None for an address of another form."""
    found = _ARCHIVED.fullmatch(address)
    return None if found is None else ArchivedRun(found[1], int(found[2]))


NO_POLICY_STEP: Final = -2
"""No weights published yet: do not generate."""
BOOTSTRAP_STEP: Final = -1
"""The initial weights of a run, before any training."""


@dataclass(frozen=True, slots=True, order=True)
class PolicyVersion:
    """One set of published weights, ordered by epoch, then by step."""

    epoch: int
    step: int


class FromTheFuture(ValueError):
    """The data claims a version that its run has not published yet."""


class FromAnotherEpoch(ValueError):
    """The data was sampled in another epoch."""


def staleness(*, sampled: PolicyVersion, current: PolicyVersion) -> int:
    """Return how many versions were published since the data was sampled.

    Raises:
        FromAnotherEpoch: If the two versions belong to different epochs.
        FromTheFuture: If `sampled` is newer than `current`.
    """
    if sampled.epoch != current.epoch:
        raise FromAnotherEpoch(f"epoch {sampled.epoch}, the run is in epoch {current.epoch}")
    if sampled.step > current.step:
        raise FromTheFuture(f"version {sampled.step}, the run is at version {current.step}")
    return current.step - sampled.step


def version_in_force(*, epoch: int, policy_step: int, served_steps: int) -> PolicyVersion:
    """Return the version assigned to data sampled now.

    A run whose trainer publishes no weights counts served batches instead: its versions belong to
    epoch 0, which no trainer opens.
    """
    if policy_step > NO_POLICY_STEP:
        return PolicyVersion(epoch, policy_step)
    return PolicyVersion(0, served_steps)


def trained_steps(*, policy_step: int, first_step: int) -> int:
    """Return how many train steps of this epoch are published.

    A trainer restored at step 500 has not consumed 500 batches of its new epoch. Counting from
    zero would admit 500 extra batches, and staleness would far exceed its limit.

    Args:
        policy_step: Current version's step; negative values count as 0.
        first_step: Step of the first version published in this epoch.
    """
    return max(0, max(policy_step, 0) - max(first_step, 0))


def batches_ahead(*, max_staleness: int | None, off_policy_tolerance: float) -> float:
    """Return the number of batches that may exist beyond those trained."""
    return off_policy_tolerance if max_staleness is None else max_staleness + 1


def admission_capacity(
    *, batches_ahead: float, trained: int, per_batch: int, accepted: int, running: int
) -> int:
    """Return how many more items may start without exceeding the staleness limit.

    Args:
        batches_ahead: As :func:`batches_ahead` returns it.
        trained: Train steps of this epoch, as :func:`trained_steps` counts them.
        per_batch: Items one train step consumes.
        accepted: Items accepted in this epoch, without those dropped.
        running: Items started and not yet accepted.

    Source:
        AReaL, Fu et al. 2025, arXiv:2505.24298, section 5.1 (staleness-aware training):
        ``(max_staleness + version + 1) · batch − accepted − running``.
    """
    ceiling = int((batches_ahead + trained) * per_batch)
    return max(0, ceiling - accepted - running)


# Suggest names of new runs.

_NUMBERED: Final = re.compile(r"-\d{1,9}\Z")
_LONGEST_STEM: Final = 70


def stem_of(name: str) -> str:
    """Return a name without its number and without characters that no run's name has."""
    cleaned = re.sub(r"[^a-zA-Z0-9_-]", "", name)[:_LONGEST_STEM]
    return _NUMBERED.sub("", cleaned) or "run"


def next_name(stem: str, names: Iterable[str]) -> str:
    """Return the stem with the number after the highest that one of `names` has."""
    taken = (name.removeprefix(f"{stem}-") for name in names)
    numbers = [int(each) for each in taken if re.fullmatch(r"[0-9]{1,9}", each)]
    return f"{stem}-{max(numbers, default=0) + 1}"
