"""Readers of the parts and series of live topics; :mod:`config.readers` fills these tables.

A part is a small JSON value, the latest of which wins. A series is a growing list of rows, each
with a rising integer `id`.

The return type of a reader defines the shape of its part in the protocol: the dashboard's types are
generated from it, and a test checks every frame against it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_type_hints

from web.live.rows import Row

ReadPart = Callable[[int], Any]
ReadSeries = Callable[[int, int | None, int], Sequence[Row]]
ReadRunActivity = Callable[[Sequence[int]], dict[int, dict[str, Any]]]

PARTS: Final[dict[str, ReadPart]] = {}
"""Parts of each run's page: ``read(run_id)``."""
PACES: Final[dict[str, float]] = {}
"""Minimum seconds between two reads of a part, for those that are not read at each change."""
SERIES: Final[dict[str, ReadSeries]] = {}
"""Series of each run's page. ``read(run_id, after_id, limit)`` returns at most `limit` rows, oldest
first: the first ones after `after_id`, or the newest ones when `after_id` is None.
"""
GLOBAL_PARTS: Final[dict[str, dict[str, Callable[[], Any]]]] = {}
"""Parts of each topic of the deployment; :mod:`runs.live.rules` defines the
access and the rate of the topics.
"""
OWN_PARTS: Final[dict[str, Callable[[str], Any]]] = {}
"""Parts of each person's own topic: ``read(username)``."""
RUN_ACTIVITY: Final[list[ReadRunActivity]] = []
"""Fields of run summaries: ``read(run_ids)`` returns them by run, in few queries; runs without data
may be omitted.
"""


def shapes(readers: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the return type of each reader."""
    return {name: get_type_hints(read).get("return", Any) for name, read in readers.items()}
