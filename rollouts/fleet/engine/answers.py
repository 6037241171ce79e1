"""Convert an engine's answers to choices in OpenAI's format."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rollouts.fleet.engine.engine import Answer
from rollouts.fleet.engine.tokenizers import TextStream, Tokenizer


@dataclass(slots=True, kw_only=True)
class Choice:
    """State of one answer to one prompt."""

    index: int
    """Index among all choices of the response."""
    stream: TextStream
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[int, int]] = field(default_factory=list)
    finish: str = ""
    """Reason of the end; empty while the answer is being generated."""

    def add(self, answer: Answer) -> str:
        """Append the newest tokens of the engine's answer; return the new text."""
        # Read in this order: the engine's thread writes in the opposite order.
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
        """Whether the engine cancelled the answer."""
        return self.finish == "cancelled"

    @property
    def policy_versions(self) -> list[list[int]]:
        """Run-length encoding of the versions: epoch, step, tokens."""
        return [[*version, len(list(same))] for version, same in groupby(self.versions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Fields of a response other than its text."""

    is_chat: bool
    identity: str
    model: str
    with_logprobs: bool
    with_token_ids: bool
    prompts: Sequence[Sequence[int]]
    answers_each: int
    tokenizer: Tokenizer
    with_numbers: bool = False
    """Whether `logprobs` have the numbers of tokens instead of their texts."""

    def response(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Return the complete response."""
        kind = "chat.completion" if self.is_chat else "text_completion"
        shown = [self._choice(choice) for choice in choices]
        return self._head(kind) | {"choices": shown, "usage": self.usage(choices)}

    def chunk(self, choice: Choice, new: str, since: int) -> dict[str, Any]:
        """Return a chunk of a streamed response.

        Args:
            choice: Choice to which `new` belongs.
            new: Text since the last chunk.
            since: Number of tokens up to the end of the last chunk.
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
        """Return the last chunk of a stream whose usage was requested."""
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        return self._head(kind) | {"choices": [], "usage": self.usage(choices)}

    def usage(self, choices: Sequence[Choice]) -> dict[str, int]:
        """Return the number of prompt and completion tokens."""
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
        texts = [
            f"token_id:{token}" if self.with_numbers else self.tokenizer.decode([token])
            for token in tokens
        ]
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
