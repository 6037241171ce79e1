"""Registry of the parts and series of live topics.

A part is a small JSON value, the latest of which wins. A series is a growing list of rows, each
with a rising integer `id`. Apps register theirs in ``AppConfig.ready``.

The return type of a reader defines the shape of its part in the protocol: the dashboard's types are
generated from it, and a test checks every frame against it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

from web.live.rows import Row

ReadPart = Callable[[int], Any]
ReadSeries = Callable[[int, int | None, int], Sequence[Row]]
ReadRunActivity = Callable[[Sequence[int]], dict[int, dict[str, Any]]]

_parts: dict[str, ReadPart] = {}
_paces: dict[str, float] = {}
_series: dict[str, ReadSeries] = {}
_run_activity: list[ReadRunActivity] = []
_global_parts: dict[str, dict[str, Callable[[], Any]]] = {}
_own: dict[str, Callable[[str], Any]] = {}


def register_part(name: str, read: ReadPart, *, every_seconds: float = 0.0) -> None:
    """Show ``read(run_id)`` as part `name` of run pages, read at most once per interval."""
    _parts[name] = read
    _paces[name] = every_seconds


def register_series(name: str, read: ReadSeries) -> None:
    """Show rows as series `name` of each run's page.

    ``read(run_id, after_id, limit)`` returns at most `limit` rows, oldest first: the first ones
    after `after_id`, or the newest ones when `after_id` is None.
    """
    _series[name] = read


def register_global_part(name: str, read: Callable[[], Any], *, topic: str = "runs") -> None:
    """Show ``read()`` as part `name` of a deployment topic.

    :mod:`runs.deployment.services.global_topics` defines the access and the rate of the topic.
    """
    _global_parts.setdefault(topic, {})[name] = read


def register_own_part(name: str, read: Callable[[str], Any]) -> None:
    """Show ``read(username)`` as part `name` of each person's own topic."""
    _own[name] = read


def register_run_activity(read: ReadRunActivity) -> None:
    """Register fields of run summaries: ``read(run_ids)`` returns them by run, in few queries.

    Runs without data may be omitted.
    """
    _run_activity.append(read)


def run_activity_readers() -> list[ReadRunActivity]:
    """Return the registered readers of run summaries."""
    return list(_run_activity)


def part_readers() -> dict[str, ReadPart]:
    """Return the parts of a run's page by name."""
    return dict(_parts)


def pace_of(name: str) -> float:
    """Return the minimum seconds between two reads of a part."""
    return _paces.get(name, 0.0)


def series_readers() -> dict[str, ReadSeries]:
    """Return the series of a run's page by name."""
    return dict(_series)


def topic_names() -> list[str]:
    """Return the topics of the deployment."""
    return list(_global_parts)


def person_readers() -> dict[str, Callable[[str], Any]]:
    """Return the parts of a person's own topic by name."""
    return dict(_own)


def shapes(readers: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the return type of each reader."""
    return {name: get_type_hints(read).get("return", Any) for name, read in readers.items()}


def global_readers(topic: str = "runs") -> dict[str, Callable[[], Any]]:
    """Return the parts of a deployment topic."""
    return dict(_global_parts.get(topic, {}))
