"""Events about refused fragments: one per reason and minute, each with a count."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from rolldeck.errors import RolldeckError
from rollouts.fleet.process.loops import EventLog

EVERY_SECONDS: Final = 60.0
KIND: Final = "fragment_refused"
"""Kind of the event; its details hold `reason` and `fragments`."""


@dataclass(slots=True)
class _Reason:
    """Refusals for one reason since its last event."""

    reported_at: float
    fragments: int = 0
    message: str = ""
    newest: "_Origin | None" = None


class _Origin(Struct):
    """The fields of a fragment that name where it is from; other items have none."""

    slot: str = ""
    environment: str = ""


class RefusalEvents:
    """Counts refused fragments by reason; the first of a reason is reported at once."""

    def __init__(self, events: EventLog, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = events
        self._clock = clock
        self._reasons: dict[str, _Reason] = {}

    def add(self, failure: RolldeckError, fragment: bytes) -> None:
        """Count a refused fragment."""
        is_new = failure.code not in self._reasons
        reason = self._reasons.setdefault(failure.code, _Reason(self._clock()))
        reason.fragments += 1
        reason.message, reason.newest = str(failure), _origin_of(fragment)
        if is_new:
            self._report(failure.code, reason)

    def report(self, *, is_last: bool = False) -> None:
        """Emit the events that are due; all that are left if `is_last`."""
        for code, reason in self._reasons.items():
            is_due = self._clock() - reason.reported_at >= EVERY_SECONDS
            if reason.fragments and (is_due or is_last):
                self._report(code, reason)

    def _report(self, code: str, reason: _Reason) -> None:
        count = reason.fragments
        what = "a fragment" if count == 1 else f"{count:,} fragments"
        self._events.add(
            KIND,
            f"The platform refused {what} permanently: {reason.message}",
            level="error",
            reason=code,
            fragments=count,
            error=reason.message,
            **({} if reason.newest is None else asdict(reason.newest)),
        )
        reason.fragments, reason.reported_at = 0, self._clock()


def _origin_of(fragment: bytes) -> _Origin | None:
    try:
        return msgspec.msgpack.decode(fragment, type=_Origin)
    except msgspec.MsgspecError:
        return None
