"""State in words whether a group was trained on, and if not, why."""

from dataclasses import dataclass
from typing import Final

from buffer.items.rules.states import DROP_CAUSES, BatchState, DropReason, ItemState
from runs.lifecycle.rules import PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """The batch that holds a group."""

    step: int
    state: BatchState
    trainer: str
    """Name of the trainer; empty if unknown."""
    lease_expiries: int
    staleness: int | None
    """Policy versions by which the group was behind; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """Facts that decide the outcome of a group."""

    state: ItemState
    drop_reason: DropReason | None
    has_bytes: bool
    sequences: int
    version: PolicyVersion | None
    """Version that sampled it."""
    has_equal_scores: bool
    has_gradient: bool | None
    """Whether a trained token has an advantage other than 0; None if unknown."""
    batch: BatchFacts | None
    max_staleness: int | None
    """Present limit of the run."""
    current: PolicyVersion
    """Version in force."""


_WITHOUT_BATCH: Final = {
    ItemState.WAITING: "Waiting for other groups of its environment that complete it",
    ItemState.QUEUED: "Queued: no trainer has leased it yet",
    ItemState.SERVED: "Trained on",
}


def outcome(group: GroupFacts) -> str:
    """Return the outcome of a group in one to three sentences."""
    sentences = [_of_dropped(group) if group.drop_reason else _of_kept(group)]
    if group.drop_reason is DropReason.STALE_VERSION and group.version is not None:
        limit = "none" if group.max_staleness is None else f"{group.max_staleness:,}"
        sentences.append(
            f"Policy {_written(group.version)} sampled it; "
            f"the run is now at {_written(group.current)}, the limit is {limit}"
        )
    if group.has_gradient is False and group.drop_reason is not DropReason.ZERO_VARIANCE:
        is_equal = group.has_equal_scores
        why = f"All {group.sequences:,} scores are equal: its" if is_equal else "Its"
        sentences.append(f"{why} advantages are 0, and it gives no gradient")
    return " ".join(f"{sentence}." for sentence in sentences)


def _of_dropped(group: GroupFacts) -> str:
    when = "Dropped" if group.has_bytes else "Dropped on arrival"
    cause = DROP_CAUSES[group.drop_reason] if group.drop_reason else ""
    return f"{when}: {cause}" + (f" (batch {group.batch.step:,})" if group.batch else "")


def _of_kept(group: GroupFacts) -> str:
    batch = group.batch
    if batch is None:
        return _WITHOUT_BATCH.get(group.state, group.state.capitalize())
    if group.state is ItemState.SERVED:
        by = f" by {batch.trainer}" if batch.trainer else ""
        behind = batch.staleness
        age = "" if behind is None else f", {behind:,} policy version{'s' * (behind != 1)} behind"
        return f"Trained on in batch {batch.step:,}{by}{age}"
    if batch.state is BatchState.QUARANTINED:
        leases = f"{batch.lease_expiries:,} lease{'s' * (batch.lease_expiries != 1)}"
        return f"Quarantined in batch {batch.step:,} after {leases}: release or discard the batch"
    if batch.state is BatchState.RETURNED:
        return f"In batch {batch.step:,}, whose lease ended: it waits for the next trainer"
    to = f" to {batch.trainer}" if batch.trainer else ""
    return f"Leased{to} in batch {batch.step:,}, not acknowledged yet"


def _written(version: PolicyVersion) -> str:
    return f"{version.epoch}.{max(version.step, 0)}"
