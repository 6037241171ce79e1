"""Prove that a rerun can pass: `pytest --second-try` fails each first try that has passed.

`--reruns` then runs every test a second time, on the decks, browsers and clusters of the first
try. A test whose second try meets what its first one left fails.
"""

from typing import Final

import pytest

OPTION: Final = "--second-try"


def fail_first_try(item: pytest.Item, report: pytest.TestReport) -> pytest.TestReport:
    """Return the report of a first try that passed as a failure if the option is given."""
    is_first = getattr(item, "execution_count", 1) == 1
    if item.config.getoption(OPTION) and report.when == "call" and is_first and report.passed:
        report.outcome = "failed"
        report.longrepr = f"{OPTION}: the first try passed"
    return report
