"""Policy version and staleness of arriving items, and the rules for those that wait.

A group smaller than its environment's `group_size` waits. When waiting groups of the environment
sum exactly to `group_size`, they are queued together. Larger groups are queued at once. Sizes that
never sum to `group_size` would wait forever: once more than `MOST_WAITING` groups wait, the oldest
is queued as it is. Batches are filled exactly from any sizes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from buffer.items.rules.exact_fill import exact_fill
from buffer.items.rules.states import DropReason
from runs.lifecycle.rules import PolicyVersion


def version_of(
    *, claimed_epoch: int | None, claimed_step: int | None, current: PolicyVersion, epoch: int
) -> PolicyVersion:
    """Return the policy version that sampled a group.

    The producer's claim is used; a step without an epoch belongs to the current epoch. Without a
    claim, the group gets the current version at the time of receipt.

    Args:
        claimed_epoch: Epoch that the group names, if any.
        claimed_step: Step that it names, if any.
        current: Version in force.
        epoch: Epoch of the run.
    """
    if claimed_step is None:
        return current
    # Before weights are published a step counts batches, unless it is of an earlier epoch.
    if claimed_epoch is None or (current.epoch == 0 and claimed_epoch >= epoch):
        return PolicyVersion(current.epoch, claimed_step)
    return PolicyVersion(claimed_epoch, claimed_step)


def drop_reason(
    oldest: PolicyVersion,
    newest: PolicyVersion,
    *,
    current: PolicyVersion,
    epoch: int,
    max_staleness: int | None,
) -> DropReason | None:
    """Return the reason why a group or fragment cannot train the run's policy, or None.

    Args:
        oldest: The oldest version that sampled a part of it.
        newest: The newest version that sampled a part of it.
        current: The version in force; of epoch 0 before weights are published.
        epoch: Epoch of the run.
        max_staleness: Maximum number of versions behind; None for no limit.
    """
    if 0 < newest.epoch < epoch:
        return DropReason.STALE_EPOCH
    if newest > current:
        return DropReason.FUTURE
    if oldest.epoch != current.epoch:
        return DropReason.STALE_EPOCH
    if max_staleness is not None and current.step - oldest.step > max_staleness:
        return DropReason.STALE_VERSION
    return None


MOST_WAITING: Final = 1024
"""Maximum number of waiting groups of one environment; each push of a smaller group reads them."""


@dataclass(slots=True, kw_only=True)
class WaitingGroups:
    """Waiting groups of one environment, oldest first, as (key, sequences)."""

    group_size: int
    waiting: list[tuple[int, int]] = field(default_factory=list)

    def add(self, key: int, sequences: int) -> list[int]:
        """Add a group; return the keys of the groups to queue, oldest first."""
        self.waiting.append((key, sequences))
        places = complete([size for _, size in self.waiting], group_size=self.group_size)
        if not places and len(self.waiting) > MOST_WAITING:
            places = [0]
        released = [self.waiting[place][0] for place in places]
        gone = set(places)
        self.waiting = [item for place, item in enumerate(self.waiting) if place not in gone]
        return released

    @property
    def sequences(self) -> int:
        return sum(size for _, size in self.waiting)


def complete(sizes: Sequence[int], *, group_size: int) -> list[int]:
    """Return the positions of groups that sum exactly to `group_size`; empty if none do.

    Takes groups in order while they fit; if that does not sum exactly, the oldest exact subset.
    """
    places, total = [], 0
    for place, size in enumerate(sizes):
        if total + size <= group_size:
            places.append(place)
            total += size
    if total == group_size:
        return places
    fill = exact_fill(sizes, behind={}, target=group_size)
    return fill.chosen if fill else []


class WaitingFragment(NamedTuple):
    """A fragment that is not part of a chunk yet."""

    id: int
    number: int
    contiguous: bool
    """Its first step follows the last step of fragment `number - 1`."""


class Cut(NamedTuple):
    """Result of forming chunks; fragments in neither list continue to wait."""

    chunks: list[list[int]]
    """Ids of each complete chunk, in order."""
    broken: list[int]
    """Ids that can never be part of a chunk: the next fragment does not continue theirs."""


def cut(waiting: Iterable[WaitingFragment], *, length: int) -> Cut:
    """Form chunks of `length` consecutive fragments, lowest numbers first.

    A missing number may still arrive, so fragments before a gap wait.
    """
    chunks: list[list[int]] = []
    broken: list[int] = []
    run: list[WaitingFragment] = []
    for fragment in sorted(waiting, key=lambda one: one.number):
        is_next = bool(run) and fragment.number == run[-1].number + 1
        if is_next and not fragment.contiguous:
            broken += [one.id for one in run]
        if not is_next or not fragment.contiguous:
            run = []
        run.append(fragment)
        if len(run) == length:
            chunks.append([one.id for one in run])
            run = []
    return Cut(chunks=chunks, broken=broken)
