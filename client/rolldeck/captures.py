"""Messages between a capturing proxy and the platform about the calls of a session."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

SESSION_PATTERN: Final = r"^[A-Za-z0-9_-]{1,120}$"
Token = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Logprob = Annotated[float, Meta(ge=-1e30, le=1e30)]
Score = Annotated[float, Meta(ge=-1e30, le=1e30)]
SessionName = Annotated[str, Meta(pattern=SESSION_PATTERN)]


class Drawn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Consecutive tokens sampled by one policy version."""

    epoch: Annotated[int, Meta(ge=0)]
    step: Annotated[int, Meta(ge=0)]
    tokens: Annotated[int, Meta(ge=0)]


class Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One choice of a call."""

    tokens: list[Token]
    logprobs: list[Logprob]
    """Log probabilities of the tokens, ``[T]``."""
    versions: list[Drawn] = []
    """In order; empty if the server does not report versions."""
    finish: Annotated[str, Meta(max_length=40)] = ""
    message: dict[str, Any] | None = None
    """The message returned to the agent, for a chat."""
    text: str = ""
    """The text returned to the agent, for a completion."""


class Repair(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part of a prompt that tokenization of the same text changed."""

    start: Annotated[int, Meta(ge=0)]
    """First changed token of the prompt."""
    stop: Annotated[int, Meta(ge=0)]
    """End of the changed tokens, exclusive."""
    tokens: list[Token]
    """Tokens of an earlier call that decode to the same text."""


class CallPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/captures/{session}/calls``."""

    key: Annotated[str, Meta(min_length=1, max_length=64)]
    """Key of the call, unique in its session; a repeated key changes nothing."""
    kind: Literal["chat", "completion", "responses", "messages"]
    """API of the call: OpenAI's chat, completions or Responses, or Anthropic's Messages."""
    model: Annotated[str, Meta(max_length=200)] = ""
    messages: list[dict[str, Any]] = []
    """Messages of a chat, as the inference server received them."""
    prompt_tokens: list[Token] = []
    answers: Annotated[list[Answer], Meta(max_length=1024)] = []
    gap: Annotated[str, Meta(max_length=1000)] = ""
    """The part of the call that could not be captured; empty if complete."""
    repair: Repair | None = None
    """Repair of the prompt; None if it continues an earlier call exactly, or begins a sequence."""

    @property
    def repaired_prompt(self) -> list[int]:
        """The tokens of the prompt, with the repair applied."""
        repair = self.repair
        if repair is None:
            return self.prompt_tokens
        prompt = self.prompt_tokens
        return [*prompt[: repair.start], *repair.tokens, *prompt[repair.stop :]]


class CallReceipt(Struct, frozen=True, kw_only=True):
    """Result of a pushed call."""

    number: int
    """Position in its session, from 0."""
    is_new: bool


class ScoreSessions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/capture-scores``: sessions that become one group."""

    scores: Annotated[dict[SessionName, Score | None], Meta(min_length=1, max_length=1024)]
    """Scores by session; each sequence of a session gets its score."""
    env_id: Annotated[int, Meta(ge=0)] | None = None
    """Registered environment of the group."""


class ScoreReceipt(Struct, frozen=True, kw_only=True):
    """Result of scored sessions."""

    sequences: int
    """Number of sequences in the group."""
    tokens: int
    """Number of trained tokens."""
    dropped: str = ""
    """Reason why the group is not queued; empty if it is."""
    gaps: dict[str, list[str]] = {}
    """Parts that could not be captured, by session; complete sessions are left out."""
