"""Form chunks from the waiting fragments of one environment slot."""

from collections.abc import Iterable
from typing import NamedTuple


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
