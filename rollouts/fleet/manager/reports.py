"""Consistency checks across the fields of a fleet's report."""

from collections.abc import Iterable
from typing import Final

from rolldeck.wire import FleetReport
from web.rules.errors import Conflict, InvalidField

NEVER_SPAWNED: Final = "none"
"""Incarnation that a manager reports for a worker that has not started yet."""


class InvalidReport(InvalidField):
    """A report contradicts itself; `field` is the path of the error."""


class StaleIncarnation(Conflict):
    """The report comes from a replaced manager."""

    code = "stale_incarnation"
    title = "Another manager has taken over"


def check(report: FleetReport) -> None:
    """Check that a report contains each worker and slot only once.

    Raises:
        InvalidReport: If one is repeated.
    """
    _refuse_repeats("workers", "index", (worker.index for worker in report.workers))
    for position, worker in enumerate(report.workers):
        _refuse_repeats(f"workers[{position}].slots", "slot", (slot.slot for slot in worker.slots))


def env_steps_since(*, before: tuple[str, int] | None, incarnation: str, env_steps: int) -> int:
    """Return the number of env steps of a worker since its last report.

    Args:
        before: Incarnation and env steps of that report; None if there was none.
        incarnation: Present incarnation of the worker; a new one counts from zero.
        env_steps: Env steps since this incarnation began.
    """
    if before is None or before[0] != incarnation:
        return env_steps
    return max(0, env_steps - before[1])


def _refuse_repeats(where: str, field: str, numbers: Iterable[int]) -> None:
    seen: set[int] = set()
    for position, number in enumerate(numbers):
        if number in seen:
            raise InvalidReport(f"{where}[{position}].{field}", f"{number} is repeated")
        seen.add(number)
