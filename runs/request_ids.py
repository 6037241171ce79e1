"""Hold the id of the request at hand, for the events that it causes."""

from contextvars import ContextVar
from typing import Final

CURRENT: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""Empty outside requests, and in those of machines that take the short way."""
