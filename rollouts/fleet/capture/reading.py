"""Extract the data for training from an inference server's responses, whole or streamed.

Servers differ in the location of tokens. `rolldeck serve` gives each choice `prompt_token_ids`,
`token_ids`, `token_logprobs` and `policy_versions`. vLLM puts `prompt_token_ids` into the response
or the choice, `token_ids` into the choice, and logprobs where OpenAI does. Missing data is
reported and never reconstructed: encoding text again would not give the sampled tokens.
"""

from dataclasses import dataclass, field
from typing import Any

from rolldeck.captures import Answer, CallPush, Drawn

Json = dict[str, Any]


class NotCaptured(ValueError):
    """A response lacks data for training; the text names it."""


@dataclass(slots=True)
class _Choice:
    index: int
    prompt: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[int, int, int]] = field(default_factory=list)
    text: str = ""
    message: Json = field(default_factory=dict)
    finish: str = ""

    def add(self, piece: Json, *, is_chat: bool) -> None:
        """Add a choice of a response, or of a chunk."""
        self.prompt = self.prompt or list(piece.get("prompt_token_ids") or [])
        self.tokens += piece.get("token_ids") or []
        self.logprobs += _logprobs(piece)
        if piece.get("policy_versions"):
            # Each chunk has the versions of all tokens so far.
            self.versions = [tuple(one) for one in piece["policy_versions"]]
        self.finish = piece.get("finish_reason") or self.finish
        if is_chat:
            self._add_message(piece.get("message") or piece.get("delta") or {})
        else:
            self.text += piece.get("text") or ""

    def _add_message(self, message: Json) -> None:
        for name, value in message.items():
            before = self.message.get(name)
            if isinstance(value, str) and isinstance(before, str) and name != "role":
                self.message[name] = before + value
            elif value is not None:
                self.message[name] = value


class Reading:
    """Captured data of one call; call `take` for each response or chunk."""

    def __init__(self, request: Json, *, is_chat: bool) -> None:
        """Start with a request.

        Args:
            request: Request of the agent.
            is_chat: Whether it is a chat; otherwise a completion.
        """
        self._request, self._is_chat = request, is_chat
        self._choices: dict[int, _Choice] = {}
        self._prompt: list[int] = []
        self._broken = ""

    def add(self, response: Json) -> None:
        """Add a response or a chunk."""
        self._prompt = self._prompt or list(response.get("prompt_token_ids") or [])
        for piece in response.get("choices") or []:
            index = int(piece.get("index") or 0)
            choice = self._choices.setdefault(index, _Choice(index))
            choice.add(piece, is_chat=self._is_chat)

    def mark_incomplete(self, why: str) -> None:
        """Mark the response as incomplete for the agent, which excludes it from training."""
        self._broken = why

    def call(self, key: str) -> CallPush:
        """Return the call to store, with its gap if there is one."""
        kept: Json = {
            "key": key,
            "kind": "chat" if self._is_chat else "completion",
            "model": str(self._request.get("model") or "")[:200],
        }
        if self._is_chat:
            kept["messages"] = self._request.get("messages") or []
        try:
            prompt, answers = self._captured()
        except NotCaptured as lack:
            return CallPush(**kept, gap=str(lack))
        return CallPush(**kept, prompt_tokens=prompt, answers=answers)

    def _captured(self) -> tuple[list[int], list[Answer]]:
        choices = [self._choices[index] for index in sorted(self._choices)]
        if self._broken:
            raise NotCaptured(self._broken)
        if not choices:
            raise NotCaptured("the server returned no choice")
        prompts = [choice.prompt or self._prompt for choice in choices]
        if not all(prompts):
            raise NotCaptured("the server returned no token ids of the prompt")
        if any(prompt != prompts[0] for prompt in prompts):
            raise NotCaptured("the call has several prompts; capture supports one")
        return prompts[0], [self._answer(choice) for choice in choices]

    def _answer(self, choice: _Choice) -> Answer:
        if not choice.tokens and (choice.text or choice.message.get("content")):
            raise NotCaptured("the server returned no token ids of the answer")
        if len(choice.logprobs) != len(choice.tokens):
            known = f"{len(choice.logprobs)} logprobs for {len(choice.tokens)} tokens"
            raise NotCaptured(f"the server returned {known}")
        if not choice.finish:
            raise NotCaptured("the answer is incomplete")
        versions = [Drawn(epoch=e, step=s, tokens=n) for e, s, n in choice.versions]
        return Answer(
            tokens=choice.tokens,
            logprobs=choice.logprobs,
            versions=versions if sum(one.tokens for one in versions) == len(choice.tokens) else [],
            finish=choice.finish,
            message=choice.message if self._is_chat else None,
            text=choice.text,
        )


def _logprobs(piece: Json) -> list[float]:
    """Return the log probabilities of a choice's tokens, for all supported servers."""
    if piece.get("token_logprobs") is not None:
        return list(piece["token_logprobs"])
    logprobs = piece.get("logprobs") or {}
    if logprobs.get("content") is not None:
        return [float(one["logprob"]) for one in logprobs["content"]]
    return [float(one) for one in logprobs.get("token_logprobs") or []]
