"""Answers to a request: from an engine's thread to an event loop, as choices in OpenAI's format."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from starlette.requests import ClientDisconnect, Request

from rollouts.fleet.engine.engine import Answer, Prompt
from rollouts.fleet.engine.openai_messages import Refused
from rollouts.fleet.engine.serving import EngineFailed, EngineThread, PendingGeneration
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
        shown = []
        for choice in choices:
            text = choice.stream.text
            content = {"role": "assistant", "content": text}
            answer: dict[str, Any] = {"message": content} if self.is_chat else {"text": text}
            answer |= {"index": choice.index, "finish_reason": choice.finish}
            answer["logprobs"] = self._logprobs(choice, 0)
            shown.append(answer | self._tokens(choice, 0))
        kind = "chat.completion" if self.is_chat else "text_completion"
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
        return self._head(self._chunk_kind) | {"choices": [shown]}

    def usage_chunk(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Return the last chunk of a stream whose usage was requested."""
        return self._head(self._chunk_kind) | {"choices": [], "usage": self.usage(choices)}

    def usage(self, choices: Sequence[Choice]) -> dict[str, int]:
        """Return the number of prompt and completion tokens."""
        read = sum(len(prompt) for prompt in self.prompts)
        written = sum(len(choice.tokens) for choice in choices)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.is_chat else "text_completion"

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.identity,
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
        }

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


class Generation:
    """The answers to the prompts of one request.

    Use it as ``with Generation(…) as generation: await generation.finished(request)``. Unfinished
    answers are cancelled at the end of the block, and their rows are free at the next step.
    """

    def __init__(
        self,
        engine: EngineThread,
        prompts: Sequence[Prompt],
        *,
        tokenizer: Tokenizer,
        includes_stop: bool,
        hears_each_token: bool,
    ) -> None:
        """Prepare the request.

        Args:
            engine: Engine thread that generates.
            prompts: Prompts to answer.
            tokenizer: Tokenizer of the model.
            includes_stop: Whether the text of an answer ends with its stop text.
            hears_each_token: Whether to wake for each token, or only when an answer ends.
        """
        streams = [
            TextStream(tokenizer, prompt.sampling.stop, includes_stop=includes_stop)
            for prompt in prompts
            for _ in range(prompt.answers)
        ]
        self.choices = [Choice(index=index, stream=stream) for index, stream in enumerate(streams)]
        self._engine, self._prompts = engine, prompts
        self._hears_each_token = hears_each_token
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[tuple[Choice, Answer]] = asyncio.Queue()
        self._waiters: list[PendingGeneration] = []

    def __enter__(self) -> "Generation":
        """Submit the prompts.

        Raises:
            PromptTooLong: If a prompt does not fit the context.
            Refused: If the engine has ended.
        """
        first = 0
        try:
            for prompt in self._prompts:
                choices = self.choices[first : first + prompt.answers]
                self._waiters.append(self._submit(prompt, choices))
                first += prompt.answers
        except EngineFailed as error:
            self.__exit__()
            raise Refused(str(error), status=503) from error
        except ValueError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pending in self._waiters:
            if pending.ended < pending.prompt.answers:
                self._engine.cancel(pending)

    async def finished(self, request: Request) -> list[Choice]:
        """Wait for all answers.

        Raises:
            ClientDisconnect: As soon as the client has disconnected.
            Refused: If the engine ends.
        """

        async def left() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        async def answered() -> None:
            async for _ in self.pieces():
                pass

        leaving, answering = asyncio.create_task(left()), asyncio.create_task(answered())
        try:
            await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ClientDisconnect
            await answering
        finally:
            leaving.cancel()
            answering.cancel()
        return self.choices

    async def pieces(self) -> AsyncIterator[tuple[Choice, str]]:
        """Yield each choice with new text, until all have ended.

        Raises:
            Refused: If the engine ends.
        """
        missing = len(self.choices)
        while missing:
            choice, answer = await self._news.get()
            if choice.finish:
                continue
            new = choice.add(answer)
            if choice.is_cancelled:
                raise Refused(self._engine.error or "the request was cancelled", status=503)
            missing -= bool(choice.finish)
            yield choice, new

    def _submit(self, prompt: Prompt, choices: Sequence[Choice]) -> PendingGeneration:
        def on_answer(answer: Answer) -> None:
            if answer.finish or self._hears_each_token:
                with suppress(RuntimeError):  # the event loop has stopped
                    self._loop.call_soon_threadsafe(
                        self._news.put_nowait, (choices[answer.index], answer)
                    )

        return self._engine.submit(prompt, on_answer)
