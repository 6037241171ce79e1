"""Read an inference server's answers, whole or in pieces, for what training needs of them.

Servers differ in where they put tokens: ours gives each choice `prompt_token_ids`, `token_ids`,
`token_logprobs` and `policy_versions`; vLLM gives `prompt_token_ids` with the response or the
choice, `token_ids` with the choice, and logprobs as OpenAI does. What is missing is said, never
made up: decoding text again would not give the tokens that were drawn.
"""

from dataclasses import dataclass, field
from typing import Any

from rolldeck.captures import Answer, CallPush, Drawn

Json = dict[str, Any]


class NotCaptured(ValueError):
    """An answer lacks what training needs; the text says what."""


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

    def take(self, piece: Json, *, is_chat: bool) -> None:
        """Add a choice of a response, or of a piece of a streamed one."""
        self.prompt = self.prompt or list(piece.get("prompt_token_ids") or [])
        self.tokens += piece.get("token_ids") or []
        self.logprobs += _logprobs(piece)
        if piece.get("policy_versions"):
            # Each piece says it of all tokens so far.
            self.versions = [tuple(one) for one in piece["policy_versions"]]
        self.finish = piece.get("finish_reason") or self.finish
        if is_chat:
            self._take_message(piece.get("message") or piece.get("delta") or {})
        else:
            self.text += piece.get("text") or ""

    def _take_message(self, said: Json) -> None:
        for name, value in said.items():
            before = self.message.get(name)
            if isinstance(value, str) and isinstance(before, str) and name != "role":
                self.message[name] = before + value
            elif value is not None:
                self.message[name] = value


class Reading:
    """What is known of one call so far; `take` as many times as the server answers."""

    def __init__(self, request: Json, *, is_chat: bool) -> None:
        """Begin.

        Args:
            request: As the agent sent it.
            is_chat: Whether it is a chat; else a completion.
        """
        self._request, self._is_chat = request, is_chat
        self._choices: dict[int, _Choice] = {}
        self._prompt: list[int] = []
        self._broken = ""

    def take(self, response: Json) -> None:
        """Read a response, or a piece of one."""
        self._prompt = self._prompt or list(response.get("prompt_token_ids") or [])
        for piece in response.get("choices") or []:
            index = int(piece.get("index") or 0)
            choice = self._choices.setdefault(index, _Choice(index))
            choice.take(piece, is_chat=self._is_chat)

    def break_off(self, why: str) -> None:
        """Hear that the agent did not get all of it: what was generated is not to be trained on."""
        self._broken = why

    def call(self, key: str) -> CallPush:
        """Return what to keep of the call, with its gap if it has one."""
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
            raise NotCaptured("the server gave no choice")
        prompts = [choice.prompt or self._prompt for choice in choices]
        if not all(prompts):
            raise NotCaptured("the server did not say the prompt's token ids")
        if any(prompt != prompts[0] for prompt in prompts):
            raise NotCaptured("the call has several prompts; capture takes one")
        return prompts[0], [self._answer(choice) for choice in choices]

    def _answer(self, choice: _Choice) -> Answer:
        if not choice.tokens and (choice.text or choice.message.get("content")):
            raise NotCaptured("the server did not say the answer's token ids")
        if len(choice.logprobs) != len(choice.tokens):
            known = f"{len(choice.logprobs)} logprobs for {len(choice.tokens)} tokens"
            raise NotCaptured(f"the server gave {known}")
        if not choice.finish:
            raise NotCaptured("the answer broke off")
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
    """Return the log probabilities of a choice's tokens, wherever the server put them."""
    if piece.get("token_logprobs") is not None:
        return list(piece["token_logprobs"])
    said = piece.get("logprobs") or {}
    if said.get("content") is not None:
        return [float(one["logprob"]) for one in said["content"]]
    return [float(one) for one in said.get("token_logprobs") or []]
