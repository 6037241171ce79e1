"""Assign tests to test processes: the longest files first, in the order of their measured seconds.

`--dist loadscope` uses it. Tests of the dashboard share one server and one browser, and therefore
one process; so do the tests on the Ray head of a process. All others are assigned by file, as the
tests of a file share fixtures. The order inside a file, and of the quick files, is random
(pytest-randomly).
"""

from collections import Counter, defaultdict
from contextlib import ExitStack
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.durations import stored_seconds
from tests.suites import suite_of

BROWSER: Final = "tests/e2e/"
DASHBOARD_RESOURCES: Final = ExitStack()
RAY_HEAD_RESOURCES: Final = ExitStack()
"""Resources that a process shares among dashboard tests, and among tests on a Ray head."""
RAY_HEAD: Final = "the tests on one Ray head"
RAY_HEAD_FILES: Final = (
    "tests/ray/test_fleet.py",
    "tests/ray/test_ray_shutdown.py",
    "tests/ray/test_language_on_ray.py",
    "tests/ray/test_platform_and_fleet.py",
    "tests/contract/test_cluster.py",
    "tests/contract/test_weights_transports.py",
)
"""Files that use the fixture `ray_head`, which lives as long as its process."""


class SharedServers(LoadScopeScheduling):
    """Scheduler that assigns tests with a common server or cluster to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Reassign only the unfinished tests of a crashed process.

        xdist also reassigns its finished files, and their new process waits without end.
        """
        given = self.assigned_work[node]
        for scope in [scope for scope, tests in given.items() if all(tests.values())]:
            del given[scope]
        crashed: str | None = super().remove_node(node)
        return crashed


def scope_of(nodeid: str) -> str:
    """Return the scope of a test: all tests of a scope run in one process."""
    path = path_of(nodeid)
    if path in RAY_HEAD_FILES:
        return RAY_HEAD
    return BROWSER if path.startswith(BROWSER) else path


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the measured seconds of their scope; a file that takes minutes starts first.

    In a scope, the markers `first` and `last` override the random order.
    """
    seconds: dict[str, float] = defaultdict(float)
    stored = stored_seconds()
    for path in {path_of(item.nodeid) for item in items}:
        seconds[scope_of(path)] += stored.get(path, 0.0)
    places: dict[str, int] = {}
    for item in items:
        places.setdefault(scope_of(item.nodeid), len(places))

    def place(item: pytest.Item) -> tuple[float, int, int]:
        scope = scope_of(item.nodeid)
        rank = bool(item.get_closest_marker("last")) - bool(item.get_closest_marker("first"))
        return (-seconds[scope], places[scope], rank)

    items.sort(key=place)


def check_items(items: list[pytest.Item]) -> None:
    """Check that each test belongs to one suite and has an id of its own: xdist runs one per id.

    Raises:
        UsageError: If markers contradict, or two tests have the same id.
    """
    for item in items:
        try:
            suite_of(item.iter_markers())
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None
    counts = Counter(item.nodeid for item in items)
    repeated = [nodeid for nodeid, count in counts.items() if count > 1]
    if repeated:
        raise pytest.UsageError(f"{len(repeated)} ids name several tests: {repeated[0]}")


def leave(item: pytest.Item) -> None:
    """Stop the server and browser, or the Ray head, before a test that does not use them.

    Playwright's event loop runs in this thread while the browser is open, and Django and asyncio
    then refuse to work. Idle, they also use a tenth of a core.
    """
    path = path_of(item.nodeid)
    if not path.startswith(BROWSER):
        DASHBOARD_RESOURCES.close()
    if path not in RAY_HEAD_FILES:
        RAY_HEAD_RESOURCES.close()


def path_of(nodeid: str) -> str:
    """Return the path of a test's file."""
    return nodeid.partition("::")[0]
