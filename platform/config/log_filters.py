"""Shorten log records."""

import logging


class OneLine(logging.Filter):
    """Drop the traceback of an error whose message says everything."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass without its traceback."""
        record.exc_info = None
        return True
