"""The suites that a test can belong to, and the marker that assigns it.

`make test` runs every test without a marker of these, `make test-full` those marked `full`,
`release` or `alone`, `make test-partners` those marked `partner`, and `make test-debian` those
marked `debian`.
A person chooses the marker, for the reason that it states; a test is never moved because it fails
at times.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

QUICK: Final = "not full and not release and not alone and not partner and not debian"
SUITE_OF_EXPRESSION: Final = {QUICK: "make test", "full": "make test-full"}
"""Suites with several test processes by their expression; the Makefile repeats them."""
SUITES: Final = {
    "full": "make test-full",
    "release": "make test-full",
    "alone": "make test-full",
    "partner": "make test-partners",
    "debian": "make test-debian",
}
WITH_PROCESSES: Final = ("ray", "system", "browser")
"""Markers of tests that start processes with deadlines: they are rerun up to twice."""
WITH_REASON: Final = ("full", "release", "alone")
_WHOLE_FILE: Final = re.compile(
    rf"^pytestmark = (?:\[[^\]]*|[^\n]*)\bmark\.(?:{'|'.join(SUITES)})\b", re.MULTILINE
)


def suite_of(marks: Iterable[pytest.Mark]) -> str:
    """Return the command that runs a test with these markers.

    Raises:
        ValueError: If a marker states no reason, or the markers are of two suites.
    """
    marks = [mark for mark in marks if mark.name in SUITES]
    for mark in marks:
        match mark.args:
            case (str(reason),) if reason:
                continue
        if mark.name in WITH_REASON:
            raise ValueError(f"the marker {mark.name} needs its reason")
    names = {mark.name for mark in marks}
    if len(names) > 1:
        raise ValueError(f"it has the markers {', '.join(sorted(names))}: choose one")
    return SUITES[names.pop()] if names else "make test"


def is_left_out(path: Path, expression: str) -> bool:
    """Return whether `make test` leaves out a whole file, so that it need not be imported."""
    return (
        expression == QUICK
        and path.name.startswith("test_")
        and _WHOLE_FILE.search(path.read_text(encoding="utf-8")) is not None
    )
