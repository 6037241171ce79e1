"""Extract the data for training from an inference server's responses, whole or streamed.

Servers differ in the location of tokens. `rolldeck serve` gives each choice `prompt_token_ids`,
`token_ids`, `token_logprobs` and `policy_versions`. vLLM puts `prompt_token_ids` into the response
or the choice, `token_ids` into the choice, and logprobs where OpenAI does. Missing data is
an error and never reconstructed: encoding text again would not give the sampled tokens.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from rolldeck.captures import Answer, CallPush, Drawn
from rollouts.fleet.capture.upstream import (
    Choice,
    Completion,
    Function,
    Json,
    Message,
    Refusal,
    ToolCall,
)

Kind = Literal["chat", "completion", "responses", "messages"]
MOST_GAP: Final = 1000
MOST_FINISH: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The first answer of a call, and its size in tokens."""

    message: Message
    finish: str
    stop_text: str | None
    """Stop text that ended the answer, if the server reports it."""
    prompt_tokens: int
    tokens: int


@dataclass(slots=True)
class _Choice:
    prompt: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[int, int, int]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    tools: dict[int, ToolCall] = field(default_factory=dict)
    role: str = "assistant"
    finish: str = ""
    stop_text: str | None = None

    def add(self, piece: Choice) -> None:
        """Add a choice of a response, or of a chunk."""
        self.prompt = self.prompt or piece.prompt_token_ids or []
        self.tokens += piece.token_ids or []
        self.logprobs += _logprobs(piece)
        # Each chunk has the versions of all tokens so far.
        self.versions = piece.policy_versions or self.versions
        self.finish = piece.finish_reason or self.finish
        if isinstance(piece.stop_reason, str):
            self.stop_text = piece.stop_reason
        self.text.append(piece.text or "")
        message = piece.message or piece.delta
        if message is not None:
            self._add_message(message)

    def _add_message(self, message: Message) -> None:
        self.role = message.role or self.role
        self.text.append(message.content or "")
        self.reasoning.append(message.reasoning or message.reasoning_content or "")
        self.refusal.append(message.refusal or "")
        for place, part in enumerate(message.tool_calls or []):
            index = place if part.index is None else part.index
            call = self.tools.setdefault(index, ToolCall(index=index))
            call.id = call.id or part.id
            call.function = _joined(call.function, part.function)

    def message(self) -> Message:
        """Return the message of the choice so far."""
        return Message(
            role=self.role,
            content="".join(self.text),
            reasoning="".join(self.reasoning) or None,
            refusal="".join(self.refusal) or None,
            tool_calls=[self.tools[index] for index in sorted(self.tools)] or None,
        )


class Reading:
    """Captured data of one call; call `add` for each response or chunk."""

    def __init__(self, *, kind: Kind, model: str, messages: list[Json]) -> None:
        """Start with a request.

        Args:
            kind: API of the request.
            model: Model that the agent named; empty for any.
            messages: Messages of a chat; empty for a completion.
        """
        self._kind, self._model, self._messages = kind, model, messages
        self._choices: dict[int, _Choice] = {}
        self._prompt: list[int] = []

    def add(self, response: Completion) -> None:
        """Add a response or a chunk.

        Raises:
            Refusal: If another model generated it.
        """
        if self._model and response.model and response.model != self._model:
            raise Refusal(
                f"the inference server answered with model {response.model!r}, "
                f"not with {self._model!r}",
                status=502,
            )
        self._prompt = self._prompt or response.prompt_token_ids or []
        for piece in response.choices:
            self._choices.setdefault(piece.index, _Choice()).add(piece)

    def generated(self) -> Generated:
        """Return the first answer."""
        choice = self._choices.get(0) or _Choice()
        return Generated(
            message=choice.message(),
            finish=choice.finish,
            stop_text=choice.stop_text,
            prompt_tokens=len(choice.prompt or self._prompt),
            tokens=len(choice.tokens),
        )

    def gap(self, key: str, why: str) -> CallPush:
        """Return the call without data, to store an answer that the agent received in part."""
        return self._push(key, gap=why[:MOST_GAP])

    def call(self, key: str) -> CallPush:
        """Return the complete call to store.

        Raises:
            Refusal: If the response lacks data for training; the text names it.
        """
        choices = [self._choices[index] for index in sorted(self._choices)]
        if not choices:
            raise _lack("no choice")
        prompts = [choice.prompt or self._prompt for choice in choices]
        if not all(prompts):
            raise _lack("no token ids of the prompt")
        if any(prompt != prompts[0] for prompt in prompts):
            raise Refusal("the call has several prompts; capture supports one", status=400)
        answers = [self._answer(choice) for choice in choices]
        return self._push(key, prompt_tokens=prompts[0], answers=answers)

    def _push(self, key: str, **fields: Any) -> CallPush:
        return CallPush(
            key=key, kind=self._kind, model=self._model[:200], messages=self._messages, **fields
        )

    def _answer(self, choice: _Choice) -> Answer:
        message = choice.message()
        has_content = message.content or message.tool_calls or message.reasoning
        if not choice.tokens and has_content:
            raise _lack("no token ids of the answer")
        if len(choice.logprobs) != len(choice.tokens):
            raise _lack(f"{len(choice.logprobs)} logprobs for {len(choice.tokens)} tokens")
        if not choice.finish:
            raise _lack("an incomplete answer, without a finish reason")
        # Weights that no trainer has published have no version.
        versions = [Drawn(epoch=e, step=s, tokens=n) for e, s, n in choice.versions if s >= 0]
        is_chat = self._kind != "completion"
        return Answer(
            tokens=choice.tokens,
            logprobs=choice.logprobs,
            versions=versions if sum(one.tokens for one in versions) == len(choice.tokens) else [],
            finish=choice.finish[:MOST_FINISH],
            message=as_json(message) if is_chat else None,
            text="" if is_chat else message.content or "",
        )


def as_json(message: Message) -> Json:
    """Return a message as OpenAI's chat completions contain it."""
    shown: Json = {"role": message.role, "content": message.content}
    if message.reasoning:
        shown["reasoning"] = message.reasoning
    if message.refusal:
        shown["refusal"] = message.refusal
    if message.tool_calls:
        shown["content"] = message.content or None
        shown["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    return shown


def _tool_call(call: ToolCall) -> Json:
    function = call.function or Function()
    made = {"name": function.name or "", "arguments": function.arguments or ""}
    return {"id": call.id or "", "type": "function", "function": made}


def _joined(before: Function | None, new: Function | None) -> Function:
    before, new = before or Function(), new or Function()
    arguments = (before.arguments or "") + (new.arguments or "")
    return Function(name=before.name or new.name, arguments=arguments)


def _lack(lack: str) -> Refusal:
    return Refusal(f"the inference server returned {lack}; the call cannot be captured", status=502)


def _logprobs(piece: Choice) -> list[float]:
    """Return the log probabilities of a choice's tokens, for all supported servers."""
    if piece.token_logprobs is not None:
        return piece.token_logprobs
    if piece.logprobs is None:
        return []
    if piece.logprobs.content is not None:
        return [one.logprob for one in piece.logprobs.content]
    return piece.logprobs.token_logprobs or []
