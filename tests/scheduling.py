"""Assign tests to test processes, and sort the longest files first.

`--dist loadscope` uses it. Tests of the dashboard share one server and one browser, and therefore
one process; so do the tests on the Ray head of a process. All others are assigned by file, as the
tests of a file share fixtures. A file that takes minutes must not start last.
"""

from collections import Counter
from contextlib import ExitStack
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

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
LONGEST_FIRST: Final = (
    "tests/system/test_up.py",
    "tests/ray/test_placement.py",
    "tests/system/test_demo.py",
    *RAY_HEAD_FILES,
    "tests/fuzz/test_generated_requests.py",
    "tests/system/test_database_kills.py",
    "tests/system/test_outages.py",
    "tests/system/test_exactly_once.py",
    "tests/system/test_benchmarks.py",
    "tests/system/test_demo_grpo.py",
    "tests/system/test_examples.py",
    "tests/system/test_recovery.py",
    "tests/system/test_learning_language.py",
    "tests/system/test_atropos_loop.py",
    "tests/ray/test_existing_cluster.py",
    "tests/system/test_interrupts.py",
)
"""Files of at least half a minute, in this order; unlisted files follow."""
HEAVY: Final = ("tests/ray/", "tests/system/", "tests/contract/test_cluster_nodes.py")


class SharedServers(LoadScopeScheduling):
    """Scheduler that assigns tests with a common server or cluster to one process."""

    def _split_scope(self, nodeid: str) -> str:
        path = _path(nodeid)
        if path in RAY_HEAD_FILES:
            return RAY_HEAD
        return BROWSER if path.startswith(BROWSER) else path

    def remove_node(self, node: WorkerController) -> str | None:
        """Reassign only the unfinished tests of a crashed process.

        xdist also reassigns its finished files, and their new process waits without end.
        """
        given = self.assigned_work[node]
        for scope in [scope for scope, tests in given.items() if all(tests.values())]:
            del given[scope]
        crashed: str | None = super().remove_node(node)
        return crashed


def longest_first(items: list[pytest.Item]) -> None:
    """Sort dashboard tests first, then long files, then other heavy ones.

    Raises:
        UsageError: If a test outside of the known files starts a server or a cluster.
    """
    for item in items:
        marked = {mark.name for mark in item.iter_markers()} & {"ray", "system", "browser"}
        path = _path(item.nodeid)
        if marked and not (_is_heavy(path) or path.startswith(BROWSER) or path in RAY_HEAD_FILES):
            raise pytest.UsageError(
                f"{item.nodeid} is marked {marked}; add its file to this module"
            )
    places = {path: place for place, path in enumerate(LONGEST_FIRST)}

    def place(item: pytest.Item) -> tuple[Any, ...]:
        path = _path(item.nodeid)
        return (
            not path.startswith(BROWSER),
            places.get(path, len(places)),
            not _is_heavy(path),
        )

    items.sort(key=place)


def check_ids(items: list[pytest.Item]) -> None:
    """Check that test ids are unique; xdist runs one test per id.

    Raises:
        UsageError: If two tests have the same id.
    """
    counts = Counter(item.nodeid for item in items)
    repeated = [nodeid for nodeid, count in counts.items() if count > 1]
    if repeated:
        raise pytest.UsageError(f"{len(repeated)} ids name several tests: {repeated[0]}")


def leave(item: pytest.Item) -> None:
    """Stop the server and browser, or the Ray head, before a test that does not use them.

    Playwright's event loop runs in this thread while the browser is open, and Django and asyncio
    then refuse to work. Idle, they also use a tenth of a core.
    """
    path = _path(item.nodeid)
    if not path.startswith(BROWSER):
        DASHBOARD_RESOURCES.close()
    if path not in RAY_HEAD_FILES:
        RAY_HEAD_RESOURCES.close()


def _is_heavy(scope: str) -> bool:
    return scope == RAY_HEAD or scope.startswith(HEAVY)


def _path(nodeid: str) -> str:
    return nodeid.partition("::")[0]
