"""Measured seconds of each test file, by which the scheduler balances the test processes.

A whole run of a suite with several processes notes its durations in pytest's cache.
``python -m tests.durations`` (`make durations`) writes them to durations.json.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
STORED: Final = Path(__file__).with_name("durations.json")
CACHE_KEY: Final = "rolldeck/durations"
NOTED: Final = ROOT / ".pytest_cache" / "v" / CACHE_KEY
SHORTEST_SECONDS: Final = 0.5
"""Quicker files are not stored; their order is random."""


def stored_seconds() -> dict[str, float]:
    """Return the seconds by path of a test file, over all suites."""
    seconds: dict[str, float] = defaultdict(float)
    for suite in json.loads(STORED.read_text(encoding="utf-8")).values():
        for path, duration in suite.items():
            seconds[path] += duration
    return seconds


class DurationRecorder:
    """pytest plugin of the process that distributes the tests: adds up seconds by suite and file.

    Args:
        suite: The command whose tests run.
    """

    def __init__(self, config: pytest.Config, suite: str) -> None:
        self._config = config
        self._suite = suite
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test."""
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Note the seconds of a whole run; those of selected tests would be too short."""
        config = self._config
        is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        if is_whole and not config.option.keyword and config.cache is not None:
            noted = config.cache.get(CACHE_KEY, {})
            config.cache.set(CACHE_KEY, noted | {self._suite: self._seconds})


def store() -> None:
    """Write the noted seconds of each suite to durations.json; keep suites that did not run."""
    suites = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    for suite, seconds in json.loads(NOTED.read_text(encoding="utf-8")).items():
        suites[suite] = {
            path: float(f"{duration:.2g}")
            for path, duration in sorted(seconds.items())
            if duration >= SHORTEST_SECONDS
        }
    STORED.write_text(json.dumps(suites, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    store()
