"""Say which tests share a process, and which begin first, where several run at a time.

`--dist loadscope` heeds it. Whatever opens the dashboard shares one deck and one browser, and so
one process; other tests go file by file, as those of one file share decks and clusters. A file
that takes minutes must not begin when the others have ended.
"""

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

BROWSER: Final = "tests/e2e/"
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


class SharedDecks(LoadScopeScheduling):
    """Gives tests that share a deck or a cluster to one process."""

    def _split_scope(self, nodeid: str) -> str:
        path = _path(nodeid)
        return BROWSER if path.startswith(BROWSER) else path


def longest_first(items: list[pytest.Item]) -> None:
    """Put those of the dashboard first, and then files that take long."""
    places = {path: place for place, path in enumerate(LONGEST_FIRST)}

    def place(item: pytest.Item) -> tuple[bool, int]:
        path = _path(item.nodeid)
        return not path.startswith(BROWSER), places.get(path, len(places))

    items.sort(key=place)


def _path(nodeid: str) -> str:
    return nodeid.partition("::")[0]
