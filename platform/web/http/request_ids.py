"""Id of the current request, for the events that it causes."""

from contextvars import ContextVar
from typing import Final

CURRENT: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""Empty outside requests, and for machine requests that bypass the middleware."""
