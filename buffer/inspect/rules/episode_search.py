"""Search for an episode in the fragments of a slot.

A fragment holds whole episodes and parts of episodes. An episode longer than a fragment spans
several consecutive fragments of its slot.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from buffer.inspect.rules.fragment_views import EpisodePart

RETURN_TOLERANCE = 1e-4
"""Relative tolerance, because rewards are stored as float32."""


class HeldPart(Struct, frozen=True, kw_only=True):
    """The part of an episode that one fragment holds."""

    fragment: int
    episode: str
    first: int
    """Index of its first step in the fragment, from 0."""
    steps: int


class HeldEpisode(Struct, frozen=True, kw_only=True):
    """An ended episode in stored fragments."""

    parts: list[HeldPart]
    """Parts in the order of their steps."""
    total_return: float
    length: int
    """Environment steps."""
    is_whole: bool
    """True if its beginning is stored too, so return and length cover the whole episode."""

    def has(self, *, total_return: float | None, length: int | None) -> bool:
        """Return whether this is a whole episode with this return and length; None matches any."""
        return (
            self.is_whole
            and (length is None or self.length == length)
            and (
                total_return is None
                or math.isclose(
                    self.total_return, total_return, rel_tol=RETURN_TOLERANCE, abs_tol=1e-6
                )
            )
        )


def ended_episodes(
    fragment: int,
    parts: Iterable[EpisodePart],
    before: Callable[[str], Iterator[tuple[int, EpisodePart]]],
) -> Iterator[HeldEpisode]:
    """Yield the episodes that end in a fragment.

    Args:
        fragment: Id of the fragment.
        parts: The episode parts in the fragment.
        before: Function that yields an episode's parts in earlier fragments, latest first.
    """
    for part in parts:
        if not part.outcome:
            continue
        held = [(fragment, part)]
        if not part.begins:
            held = [*reversed(list(before(part.id))), *held]
        yield HeldEpisode(
            parts=[
                HeldPart(fragment=place, episode=one.id, first=one.first, steps=one.steps)
                for place, one in held
            ],
            total_return=sum(one.reward for _, one in held),
            length=sum(one.steps for _, one in held),
            is_whole=held[0][1].begins,
        )
