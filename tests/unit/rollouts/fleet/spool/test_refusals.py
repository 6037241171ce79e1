"""Refused fragments are reported at once, then once per reason and minute with their number."""

import msgspec

from rolldeck.errors import InvalidRequest, RolldeckError
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.spool.sender import RefusalEvents

NAN = InvalidRequest(status=422, code="invalid_data", detail="arrays.obs: not finite")
FRAGMENT = msgspec.msgpack.encode({"slot": "w0-3@a", "environment": "module:lab:Maze"})
LARGE = InvalidRequest(status=413, code="too_large", detail="50,000,000 bytes (max_body_bytes)")


class Refusals:
    """Refusals on a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = EventLog()
        self.counted = RefusalEvents(self.events, clock=lambda: self.now)

    def add(self, failure: RolldeckError, *, fragments: int) -> None:
        for _ in range(fragments):
            self.counted.add(failure, FRAGMENT)

    def reported(self) -> list[tuple[str, int]]:
        return [(one.details["reason"], one.details["fragments"]) for one in self.events.pop()]


def test_many_refusals_make_one_event_per_reason_and_minute() -> None:
    refusals = Refusals()

    refusals.add(NAN, fragments=971)
    refusals.counted.report()
    assert refusals.reported() == [("invalid_data", 1)]

    refusals.now = 59.0
    refusals.add(LARGE, fragments=3)
    refusals.counted.report()
    assert refusals.reported() == [("too_large", 1)]

    refusals.now = 60.0
    refusals.counted.report()
    assert refusals.reported() == [("invalid_data", 970)]

    refusals.now = 200.0
    refusals.counted.report()
    refusals.counted.report()
    assert refusals.reported() == [("too_large", 2)]


def test_an_event_has_the_newest_message_and_the_last_ones_are_reported_at_the_end() -> None:
    refusals = Refusals()
    refusals.add(NAN, fragments=3)

    refusals.counted.report(is_last=True)

    first, last = refusals.events.pop()
    assert first.message == (
        "The platform refused a fragment permanently: arrays.obs: not finite [422 invalid_data]"
    )
    assert last.message.startswith("The platform refused 2 fragments permanently: arrays.obs")
    assert (last.kind, last.level) == ("fragment_refused", "error")
    assert (last.details["slot"], last.details["environment"]) == ("w0-3@a", "module:lab:Maze")
