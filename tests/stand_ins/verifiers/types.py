"""Messages and answers, with the fields that the adapter reads and writes."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass
class Message:
    """One turn of a conversation."""

    role: str
    content: Any


@dataclass(kw_only=True)
class ResponseMessage:
    """Message of the policy."""

    content: str
    finish_reason: Literal["stop", "length", "tool_calls"] | None
    is_truncated: bool | None
    role: Literal["assistant"] = "assistant"


@dataclass(kw_only=True)
class Response:
    """Answer of the inference server."""

    id: str
    created: int
    model: str
    message: ResponseMessage
