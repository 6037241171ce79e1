"""Messages and answers, with the fields that the adapter reads and writes."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass
class Message:
    """A turn."""

    role: str
    content: Any


@dataclass(kw_only=True)
class ResponseMessage:
    """What the policy said."""

    content: str
    finish_reason: Literal["stop", "length", "tool_calls"] | None
    is_truncated: bool | None
    role: Literal["assistant"] = "assistant"


@dataclass(kw_only=True)
class Response:
    """An answer."""

    id: str
    created: int
    model: str
    message: ResponseMessage
