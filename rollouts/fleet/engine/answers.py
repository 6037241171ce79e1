"""Turn the answers of an engine into choices as OpenAI shapes them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rollouts.fleet.engine.engine import Answer
from rollouts.fleet.engine.text_stream import TextStream
from rollouts.fleet.engine.tokenizers import Tokenizer


@dataclass(slots=True, kw_only=True)
class Choice:
    """One answer to one prompt, as far as it is."""

    index: int
    """Among all choices of the response."""
    stream: TextStream
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[int, int]] = field(default_factory=list)
    finish: str = ""
    """Why it ended; empty while it goes on."""

    def take(self, answer: Answer) -> str:
        """Take what has come since; return the new text.

        The engine may be some tokens ahead of a stop text: they are left out.
        """
        # Read in this order: the engine's thread writes it the other way round.
        finish, count = answer.finish, len(answer.versions)
        new = ""
        for place in range(len(self.tokens), count):
            self.tokens.append(answer.tokens[place])
            self.logprobs.append(answer.logprobs[place])
            self.versions.append(answer.versions[place])
            new += self.stream.add(self.tokens)
            if self.stream.is_stopped:
                self.finish = "stop"
                return new
        self.finish = finish
        return new + self.stream.add(self.tokens, is_last=True) if finish else new

    @property
    def is_cancelled(self) -> bool:
        """Whether the engine gave it up."""
        return self.finish == "cancelled"

    @property
    def policy_versions(self) -> list[list[int]]:
        """Runs of tokens of the same version: epoch, step, tokens."""
        return [[*version, len(list(same))] for version, same in groupby(self.versions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a response has besides its text."""

    is_chat: bool
    identity: str
    model: str
    with_logprobs: bool
    with_token_ids: bool
    prompts: Sequence[Sequence[int]]
    answers_each: int
    tokenizer: Tokenizer

    def response(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Return the whole response."""
        kind = "chat.completion" if self.is_chat else "text_completion"
        shown = [self._choice(choice) for choice in choices]
        return self._head(kind) | {"choices": shown, "usage": self.usage(choices)}

    def chunk(self, choice: Choice, new: str, since: int) -> dict[str, Any]:
        """Return a piece of a streamed response.

        Args:
            choice: Whose text is `new`.
            new: Text since the last piece.
            since: Tokens that the last piece ended with.
        """
        if self.is_chat:
            delta: dict[str, Any] = {"content": new} | ({} if since else {"role": "assistant"})
            shown: dict[str, Any] = {"index": choice.index, "delta": delta}
        else:
            shown = {"index": choice.index, "text": new}
        shown["finish_reason"] = choice.finish or None
        shown["logprobs"] = self._logprobs(choice, since)
        shown |= self._tokens(choice, since)
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        return self._head(kind) | {"choices": [shown]}

    def usage_chunk(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Return the last piece of a stream that was asked to count."""
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        return self._head(kind) | {"choices": [], "usage": self.usage(choices)}

    def usage(self, choices: Sequence[Choice]) -> dict[str, int]:
        """Return how many tokens were read and written."""
        read = sum(len(prompt) for prompt in self.prompts)
        written = sum(len(choice.tokens) for choice in choices)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.identity,
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
        }

    def _choice(self, choice: Choice) -> dict[str, Any]:
        text = choice.stream.text
        shown: dict[str, Any] = {"index": choice.index, "finish_reason": choice.finish}
        shown |= (
            {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        )
        shown["logprobs"] = self._logprobs(choice, 0)
        return shown | self._tokens(choice, 0)

    def _tokens(self, choice: Choice, since: int) -> dict[str, Any]:
        if not self.with_token_ids:
            return {}
        found: dict[str, Any] = {
            "token_ids": choice.tokens[since:],
            "token_logprobs": choice.logprobs[since:],
            "policy_versions": choice.policy_versions,
        }
        if not since:
            found["prompt_token_ids"] = list(self.prompts[choice.index // self.answers_each])
        return found

    def _logprobs(self, choice: Choice, since: int) -> dict[str, Any] | None:
        if not self.with_logprobs:
            return None
        tokens = choice.tokens[since:]
        texts = [self.tokenizer.decode([token]) for token in tokens]
        logprobs = choice.logprobs[since:]
        if not self.is_chat:
            return {
                "tokens": texts,
                "token_logprobs": logprobs,
                "top_logprobs": None,
                "text_offset": [sum(map(len, texts[:place])) for place in range(len(texts))],
            }
        return {
            "content": [
                {
                    "token": text,
                    "logprob": logprob,
                    "bytes": list(text.encode()),
                    "top_logprobs": [],
                }
                for text, logprob in zip(texts, logprobs, strict=True)
            ]
        }
