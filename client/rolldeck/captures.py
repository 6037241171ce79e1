"""What a capturing proxy and the platform tell each other about the calls of a session."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

SESSION_PATTERN: Final = r"^[A-Za-z0-9_-]{1,120}$"
Token = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Logprob = Annotated[float, Meta(ge=-1e30, le=1e30)]
Score = Annotated[float, Meta(ge=-1e30, le=1e30)]
SessionName = Annotated[str, Meta(pattern=SESSION_PATTERN)]


class Drawn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens in a row that one policy version drew."""

    epoch: Annotated[int, Meta(ge=0)]
    step: Annotated[int, Meta(ge=0)]
    tokens: Annotated[int, Meta(ge=0)]


class Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One choice of a call."""

    tokens: list[Token]
    logprobs: list[Logprob]
    """Of the tokens, ``[T]``."""
    versions: list[Drawn] = []
    """In order; empty where the server does not say."""
    finish: Annotated[str, Meta(max_length=40)] = ""
    message: dict[str, Any] | None = None
    """What the agent read, for a chat."""
    text: str = ""
    """What the agent read, for a completion."""


class CallPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/captures/{session}/calls``."""

    key: Annotated[str, Meta(min_length=1, max_length=64)]
    """Of the call, unique in its session; a second time changes nothing."""
    kind: Literal["chat", "completion"]
    model: Annotated[str, Meta(max_length=200)] = ""
    messages: list[dict[str, Any]] = []
    """Of a chat, as the agent sent them."""
    prompt_tokens: list[Token] = []
    answers: Annotated[list[Answer], Meta(max_length=1024)] = []
    gap: Annotated[str, Meta(max_length=1000)] = ""
    """What of the call could not be captured; empty if nothing is missing."""


class CallReceipt(Struct, frozen=True, kw_only=True):
    """What became of a call."""

    number: int
    """In its session, from 0."""
    is_new: bool


class ScoreSessions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/capture-scores``: sessions that become one group."""

    scores: Annotated[dict[SessionName, Score], Meta(min_length=1, max_length=1024)]
    """By session; each of its sequences gets the session's."""
    env_id: Annotated[int, Meta(ge=0)] | None = None
    """Registered environment that the group belongs to."""


class ScoreReceipt(Struct, frozen=True, kw_only=True):
    """What became of scored sessions."""

    sequences: int
    """In the group."""
    tokens: int
    """That are trained on."""
    dropped: str = ""
    """Why the group is not queued; empty if it is."""
    gaps: dict[str, list[str]] = {}
    """By session, what could not be captured; sessions without gaps are not named."""
