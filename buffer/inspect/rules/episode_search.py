"""Search for an episode in the fragments of a slot.

A fragment holds whole episodes and parts of episodes. An episode longer than a fragment spans
several consecutive fragments of its slot.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from buffer.inspect.rules.fragment_views import EpisodePart
from web.rules.errors import InvalidField

RETURN_TOLERANCE = 1e-4
"""Relative tolerance, because rewards are stored as float32."""
_DIGITS_AT_MOST = 18


class InvalidEpisodeId(InvalidField):
    """The text is not the id of an episode."""


def slot_and_number(episode: str) -> tuple[str, int]:
    """Return slot and number of an episode id, such as ``w0-3@5f2c/12``.

    Raises:
        InvalidEpisodeId: If the text has another form.
    """
    slot, slash, _ = episode.rpartition("/")
    number = number_in(episode)
    if not slash or not slot or number < 0:
        raise InvalidEpisodeId("episode", "must be a slot, a slash and a number: w0-3@5f2c/12")
    return slot, number


def number_in(episode: str) -> int:
    """Return the number in an episode id; -1 if it has none."""
    digits = episode.rpartition("/")[2]
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_AT_MOST
    return int(digits) if is_number else -1


class StoredPart(Struct, frozen=True, kw_only=True):
    """The part of an episode that one fragment holds."""

    fragment: int
    episode: str
    first: int
    """Index of its first step in the fragment, from 0."""
    steps: int


class StoredEpisode(Struct, frozen=True, kw_only=True):
    """An ended episode in stored fragments."""

    parts: list[StoredPart]
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
) -> Iterator[StoredEpisode]:
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
        yield StoredEpisode(
            parts=[
                StoredPart(fragment=place, episode=one.id, first=one.first, steps=one.steps)
                for place, one in held
            ],
            total_return=sum(one.reward for _, one in held),
            length=sum(one.steps for _, one in held),
            is_whole=held[0][1].begins,
        )
