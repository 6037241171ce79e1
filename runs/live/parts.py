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
_series: dict[str, ReadSeries] = {}
_outlooks: list[ReadOutlook] = []
_deck: dict[str, dict[str, Callable[[], Any]]] = {}


def register_part(name: str, read: ReadPart) -> None:
    """Show ``read(run_id)`` as part `name` of each run's page."""
    _parts[name] = read


def register_series(name: str, read: ReadSeries) -> None:
    """Show rows as series `name` of each run's page.

    ``read(run_id, after_id, limit)`` returns at most `limit` rows, oldest first: the first ones
    after `after_id`, or the newest ones when `after_id` is None.
    """
    _series[name] = read


def register_deck_part(name: str, read: Callable[[], Any], *, topic: str = "runs") -> None:
    """Show ``read()`` as part `name` of a topic of the whole deck: the list of runs, the alerts."""
    _deck.setdefault(topic, {})[name] = read


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


def series_readers() -> dict[str, ReadSeries]:
    """Return the series of a run's page by name."""
    return dict(_series)


def deck_topics() -> list[str]:
    """Return the topics of the whole deck."""
    return list(_deck)


def shapes(readers: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the type that each reader gives."""
    return {name: get_type_hints(read).get("return", Any) for name, read in readers.items()}


def deck_readers(topic: str = "runs") -> dict[str, Callable[[], Any]]:
    """Return the parts of a topic of the whole deck."""
    return dict(_deck.get(topic, {}))
