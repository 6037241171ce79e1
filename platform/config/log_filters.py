"""Log filters."""

import logging


class OneLine(logging.Filter):
    """Filter that drops tracebacks, for errors whose message is sufficient."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove the traceback and accept the record."""
        record.exc_info = None
        return True
