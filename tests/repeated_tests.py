"""Check that reruns can pass: `pytest --second-try` fails each first try that has passed.

`--reruns` then runs every test a second time, with the servers, browsers and clusters of the first
try. A test fails if its second try conflicts with remains of its first.
"""

from typing import Final

import pytest

OPTION: Final = "--second-try"


def fail_first_try(item: pytest.Item, report: pytest.TestReport) -> pytest.TestReport:
    """Report a passed first try as a failure if the option is given."""
    is_first = getattr(item, "execution_count", 1) == 1
    if item.config.getoption(OPTION) and report.when == "call" and is_first and report.passed:
        report.outcome = "failed"
        report.longrepr = f"{OPTION}: the first try passed"
    return report
