"""Register what the live page of a run is made of.

A part is a small JSON value, of which the latest wins. A series is a list of rows that only
grows; each row has a rising integer `id`. Apps register theirs in ``AppConfig.ready``.

What a reader returns by its signature is the shape of its part in the protocol: the types of the
dashboard are generated from it, and a test holds every frame to it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

from runs.core.live_topic import Row

ReadPart = Callable[[int], Any]
ReadSeries = Callable[[int, int | None, int], Sequence[Row]]
ReadOutlook = Callable[[Sequence[int]], dict[int, dict[str, Any]]]

_parts: dict[str, ReadPart] = {}
_paces: dict[str, float] = {}
_series: dict[str, ReadSeries] = {}
_outlooks: list[ReadOutlook] = []
_deck: dict[str, dict[str, Callable[[], Any]]] = {}
_own: dict[str, Callable[[str], Any]] = {}


def register_part(name: str, read: ReadPart, *, every_seconds: float = 0.0) -> None:
    """Show ``read(run_id)`` as part `name` of each run's page, read so often at most."""
    _parts[name] = read
    _paces[name] = every_seconds


def register_series(name: str, read: ReadSeries) -> None:
    """Show rows as series `name` of each run's page.

    ``read(run_id, after_id, limit)`` returns at most `limit` rows, oldest first: the first ones
    after `after_id`, or the newest ones when `after_id` is None.
    """
    _series[name] = read


def register_deck_part(name: str, read: Callable[[], Any], *, topic: str = "runs") -> None:
    """Show ``read()`` as part `name` of a topic of the whole deck.

    How the topic is kept and who may watch it, :mod:`runs.live.deck_topics` says.
    """
    _deck.setdefault(topic, {})[name] = read


def register_own_part(name: str, read: Callable[[str], Any]) -> None:
    """Show ``read(username)`` as part `name` of the topic that each person has of their own."""
    _own[name] = read


def register_outlook(read: ReadOutlook) -> None:
    """Show more fields of each run in lists: ``read(run_ids)`` returns them by run, in few queries.

    Runs of which there is nothing to say may be left out.
    """
    _outlooks.append(read)


def outlook_readers() -> list[ReadOutlook]:
    """Return what is shown beside the runs of a list."""
    return list(_outlooks)


def part_readers() -> dict[str, ReadPart]:
    """Return the parts of a run's page by name."""
    return dict(_parts)


def pace_of(name: str) -> float:
    """Return how many seconds a part of a run stands before it is read again."""
    return _paces.get(name, 0.0)


def series_readers() -> dict[str, ReadSeries]:
    """Return the series of a run's page by name."""
    return dict(_series)


def deck_topics() -> list[str]:
    """Return the topics of the whole deck."""
    return list(_deck)


def own_readers() -> dict[str, Callable[[str], Any]]:
    """Return the parts of a person's own topic by name."""
    return dict(_own)


def shapes(readers: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the type that each reader gives."""
    return {name: get_type_hints(read).get("return", Any) for name, read in readers.items()}


def deck_readers(topic: str = "runs") -> dict[str, Callable[[], Any]]:
    """Return the parts of a topic of the whole deck."""
    return dict(_deck.get(topic, {}))
