"""Log filters, which limit what a client or an outage can write."""

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from web.outages import Outage, is_outage

LONGEST_TEXT: Final = 300
"""Maximum characters of a path, a client's name or an error message in a line."""
MOST_SOURCES: Final = 1000
"""Number of addresses and kinds of lines that are remembered."""
CALL_LOG: Final = "config.middleware"
LONGEST_LINE: Final = 700
"""Maximum characters of a line about a refused request, without time and logger."""
PREFIX: Final = 100
"""Characters that each line counts for its time, its logger and the number of lines left out."""
AT_ONCE: Final = LONGEST_LINE + PREFIX
PER_SECOND: Final = 200
"""Characters by which the allowance of an address grows: with :data:`AT_ONCE`, at most 1,000 in any
second."""
SECONDS_BETWEEN: Final = 60.0
"""Seconds between two lines about an outage, or about invalid requests."""


class OneLine(logging.Filter):
    """Filter that drops tracebacks, for errors whose message is sufficient."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove the traceback and accept the record."""
        record.exc_info = None
        return True


@dataclass(slots=True)
class _Source:
    """Lines of one address or of one kind; `credit` is the allowance that is left."""

    credit: float
    at: float
    suppressed: int = 0


class LimitedLines(logging.Filter):
    """Filter that shortens lines about requests, and limits how often similar ones are written.

    - Refused requests: at most 1,000 characters for an address in any second.
    - Outages, and invalid requests that uvicorn reports: one line per logger and minute, without
      a traceback.

    The next line of the same source has the number of those left out, unless it is JSON.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sources: OrderedDict[tuple[str, str], _Source] = OrderedDict()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the record."""
        request = getattr(record, "request", None)
        if request is not None and record.name.startswith("django."):
            _replace(record, record.getMessage()[:LONGEST_TEXT])
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None and is_outage(error):
            _replace(
                record, f"{record.getMessage()}: {' '.join(str(error).split())}"[:LONGEST_TEXT]
            )
            record.exc_info = record.exc_text = None
            return self._is_written(record, "outage", f"{record.name} {type(error).__name__}")
        status = getattr(record, "status_code", 0)
        if status == Outage.status and record.name.startswith("django."):
            return self._is_written(record, "outage", record.name)
        if request is not None and 400 <= status < 500:
            return self._is_written(record, "refusal", str(request.META.get("REMOTE_ADDR", "")))
        if record.name.startswith("uvicorn") and error is None:
            return self._is_written(record, "server", str(record.msg))
        return True

    def _is_written(self, record: logging.LogRecord, kind: str, source: str) -> bool:
        now = time.monotonic()
        most, per_second, cost = 1.0, 1 / SECONDS_BETWEEN, 1.0
        if kind == "refusal":
            most, per_second = float(AT_ONCE), float(PER_SECOND)
            cost = float(PREFIX + len(record.getMessage()))
        with self._lock:
            known = self._sources.setdefault((kind, source), _Source(credit=most, at=now))
            self._sources.move_to_end((kind, source))
            if len(self._sources) > MOST_SOURCES:
                self._sources.popitem(last=False)
            known.credit = min(most, known.credit + (now - known.at) * per_second)
            known.at = now
            if known.credit < cost:
                known.suppressed += 1
                return False
            known.credit -= cost
            suppressed, known.suppressed = known.suppressed, 0
        if suppressed and record.name != CALL_LOG:
            _replace(record, f"{record.getMessage()} ({suppressed} similar lines left out)")
        return True


def _replace(record: logging.LogRecord, text: str) -> None:
    record.msg, record.args = text, ()
