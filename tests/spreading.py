"""Say which tests share a process, and which begin first, where several run at a time.

Only `--dist loadgroup` heeds it. Whatever opens the dashboard shares one deck and one browser, and
so one process; other tests of decks and clusters go file by file. A file that takes minutes must
not begin when the others have ended.
"""

from collections.abc import Iterable
from typing import Final

import pytest

BROWSER: Final = "browser"
DECKS: Final = ("browser", "ray", "system")
LONGEST_FIRST: Final = (
    "tests/system/test_up.py",
    "tests/ray/test_placement.py",
    "tests/system/test_demo.py",
    "tests/ray/test_fleet.py",
    "tests/system/test_exactly_once.py",
    "tests/system/test_benchmarks.py",
    "tests/system/test_demo_grpo.py",
    "tests/system/test_examples.py",
    "tests/system/test_healing.py",
    "tests/system/test_learning_language.py",
    "tests/system/test_atropos_loop.py",
    "tests/contract/test_weights_transports.py",
    "tests/ray/test_existing_cluster.py",
)
"""Files of half a minute and more, in this order; what is not named comes after them."""


def spread(items: list[pytest.Item]) -> None:
    """Mark tests of decks with those that they share a process with, and put the longest first."""
    places = {path: place for place, path in enumerate(LONGEST_FIRST)}
    for item in items:
        if _has(item, DECKS):
            group = BROWSER if _has(item, [BROWSER]) else _path(item)
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (not _has(item, [BROWSER]), places.get(_path(item), len(places))))


def _has(item: pytest.Item, markers: Iterable[str]) -> bool:
    return any(item.get_closest_marker(name) for name in markers)


def _path(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
