"""Finding an episode in the fragments of a slot.

A fragment holds whole episodes and parts of them; an episode that is longer than a fragment lies in
several of its slot, one after another.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from buffer.inspect.rules.fragment_views import EpisodePart

RETURN_TOLERANCE = 1e-4
"""Relative: rewards are stored as float32."""


class HeldPart(Struct, frozen=True, kw_only=True):
    """The part of an episode that one fragment holds."""

    fragment: int
    episode: str
    first: int
    """Its first step in the fragment, counted from 0."""
    steps: int


class HeldEpisode(Struct, frozen=True, kw_only=True):
    """An ended episode in stored fragments."""

    parts: list[HeldPart]
    """In the order of their steps."""
    total_return: float
    length: int
    """Env steps."""
    is_whole: bool
    """Its beginning is stored too, so return and length are the episode's."""

    def has(self, *, total_return: float | None, length: int | None) -> bool:
        """Return whether a whole episode has this return and length; None: any."""
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
        fragment: Its id.
        parts: The episodes in it.
        before: Return the parts of an episode in earlier fragments of the slot, latest first.
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
