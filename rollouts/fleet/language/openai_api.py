"""Serve an engine under OpenAI's HTTP API: models, completions, chat completions, health."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rollouts.fleet.language.answers import Choice, Shape
from rollouts.fleet.language.engine import Answer, Prompt, PromptTooLong
from rollouts.fleet.language.openai_messages import (
    UNSUPPORTED,
    Asked,
    AskedChat,
    AskedCompletion,
    Refused,
    TokenIds,
)
from rollouts.fleet.language.sampling import SamplingParams
from rollouts.fleet.language.serving import EngineFailed, EngineThread, Ticket
from rollouts.fleet.language.text_stream import TextStream
from rollouts.fleet.language.tokenizers import Tokenizer, TokenizerUnusable

DEFAULT_TOKENS = 16
"""OpenAI's, for completions; a chat goes on to the end of the context."""
MOST_SEED = 1 << 40

A = TypeVar("A", bound=msgspec.Struct)


@dataclass(slots=True, kw_only=True)
class Generation:
    """The answers to the prompts of one request, as they come."""

    shape: Shape
    choices: list[Choice]
    tickets: list[Ticket]
    news: "asyncio.Queue[tuple[Choice, Answer]]"


class OpenAiApi:
    """An ASGI application, `app`, in front of an engine's thread."""

    def __init__(
        self, engine: EngineThread, *, tokenizer: Tokenizer, model: str, context: int
    ) -> None:
        """Serve.

        Args:
            engine: Generates.
            tokenizer: Of its model.
            model: Name by which clients ask for it.
            context: Tokens that a prompt and its answer may have together.
        """
        self._engine, self._tokenizer = engine, tokenizer
        self._model, self._context = model, context
        self.app = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/v1/models", self._models),
                Route("/v1/completions", self._complete, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ],
            exception_handlers={Refused: _refuse},
        )

    async def _health(self, request: Request) -> Response:  # noqa: ARG002 the framework's
        progress = self._engine.progress
        status = 503 if self._engine.error else 200
        said = {
            "status": "failed" if self._engine.error else "ready",
            "error": self._engine.error,
            "running": progress.running,
            "waiting": progress.waiting,
            "tokens": progress.tokens,
            "policy_version": list(progress.version),
        }
        return JSONResponse(said, status)

    async def _models(self, request: Request) -> Response:  # noqa: ARG002 the framework's
        one = {"id": self._model, "object": "model", "created": 0, "owned_by": "rolldeck"}
        shown = one | {"max_model_len": self._context}
        return JSONResponse({"object": "list", "data": [shown]})

    async def _complete(self, request: Request) -> Response:
        asked = await read_body(request, AskedCompletion)
        prompts = [self.tokens(prompt) for prompt in _prompts(asked.prompt)]
        most = asked.max_tokens or DEFAULT_TOKENS
        return await self._answer(
            request, asked, prompts, most=most, with_logprobs=asked.logprobs is not None
        )

    async def _chat(self, request: Request) -> Response:
        asked = await read_body(request, AskedChat)
        try:
            text = self._tokenizer.render([_flat(message) for message in asked.messages])
        except TokenizerUnusable as error:
            raise Refused(str(error), param="messages") from error
        most = asked.max_completion_tokens or asked.max_tokens or self._context
        return await self._answer(
            request, asked, [self.tokens(text)], most=most, with_logprobs=bool(asked.logprobs)
        )

    async def _answer(
        self,
        request: Request,
        asked: Asked,
        prompts: list[list[int]],
        *,
        most: int,
        with_logprobs: bool,
    ) -> Response:
        if asked.model and asked.model != self._model:
            raise Refused(f"there is no model {asked.model!r}", param="model", status=404)
        shape = Shape(
            is_chat=isinstance(asked, AskedChat),
            identity=f"cmpl-{secrets.token_hex(12)}",
            model=self._model,
            with_logprobs=with_logprobs,
            with_token_ids=asked.return_token_ids,
            prompts=prompts,
            answers_each=asked.n or 1,
            tokenizer=self._tokenizer,
        )
        if asked.stream:
            generation = self._begin(shape, asked, most)
            counts = bool((asked.stream_options or {}).get("include_usage"))
            return StreamingResponse(
                self._stream(generation, counts=counts), media_type="text/event-stream"
            )
        return JSONResponse(shape.response(await self.choices(request, shape, asked, most)))

    async def choices(
        self, request: Request, shape: Shape, asked: Asked, most: int
    ) -> list[Choice]:
        """Return the answers to the prompts of `shape`, each of at most `most` tokens.

        Raises:
            Refused: If they cannot be had.
            ClientDisconnect: If the client hung up.
        """
        generation = self._begin(shape, asked, most)
        try:
            await self._collect(request, generation)
        finally:
            self._cancel(generation)
        return generation.choices

    def _begin(self, shape: Shape, asked: Asked, most: int) -> Generation:
        loop = asyncio.get_running_loop()
        news: asyncio.Queue[tuple[Choice, Answer]] = asyncio.Queue()
        stop = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
        end = [] if asked.ignore_eos else [self._tokenizer.end]
        ends = frozenset([*end, *(asked.stop_token_ids or [])])
        seed = secrets.randbelow(MOST_SEED) if asked.seed is None else asked.seed % MOST_SEED
        generation = Generation(shape=shape, choices=[], tickets=[], news=news)
        for place, tokens in enumerate(shape.prompts):
            first = place * shape.answers_each
            choices = [
                Choice(index=first + n, stream=TextStream(self._tokenizer, stop))
                for n in range(shape.answers_each)
            ]
            generation.choices += choices
            sampling = SamplingParams(
                max_tokens=most,
                temperature=1.0 if asked.temperature is None else asked.temperature,
                top_p=asked.top_p or 1.0,
                top_k=max(0, asked.top_k or 0),
                stop_tokens=ends,
                seed=seed + place,
            )

            def hear(answer: Answer, choices: Sequence[Choice] = tuple(choices)) -> None:
                with suppress(RuntimeError):  # the server has stopped: nobody listens
                    loop.call_soon_threadsafe(news.put_nowait, (choices[answer.index], answer))

            prompt = Prompt(tokens=tuple(tokens), sampling=sampling, answers=shape.answers_each)
            try:
                generation.tickets.append(self._engine.submit(prompt, hear))
            except PromptTooLong as error:
                self._cancel(generation)
                field = "messages" if shape.is_chat else "prompt"
                raise Refused(str(error), param=field) from error
            except EngineFailed as error:
                raise Refused(str(error), status=503) from error
        return generation

    async def _collect(self, request: Request, generation: Generation) -> None:
        """Wait for all answers; a client that hangs up ends the wait."""
        while not all(choice.finish for choice in generation.choices):
            try:
                choice, answer = await asyncio.wait_for(generation.news.get(), 0.5)
            except TimeoutError:
                if await request.is_disconnected():
                    raise ClientDisconnect from None
                continue
            self._hear(choice, answer)

    def _hear(self, choice: Choice, answer: Answer) -> str:
        new = "" if choice.finish else choice.take(answer)
        if choice.finish == "cancelled":
            raise Refused(self._engine.error or "the request was cancelled", status=503)
        return new

    async def _stream(self, generation: Generation, *, counts: bool) -> AsyncIterator[bytes]:
        shape = generation.shape
        sent = dict.fromkeys(range(len(generation.choices)), 0)
        try:
            while not all(choice.finish for choice in generation.choices):
                choice, answer = await generation.news.get()
                if choice.finish:
                    continue
                new = self._hear(choice, answer)
                if new or choice.finish or shape.with_token_ids:
                    yield _event(shape.chunk(choice, new, sent[choice.index]))
                    sent[choice.index] = len(choice.tokens)
            if counts:
                yield _event(shape.usage_chunk(generation.choices))
        except Refused as failure:
            yield _event(failure.body())
        finally:
            self._cancel(generation)
        yield b"data: [DONE]\n\n"

    def _cancel(self, generation: Generation) -> None:
        """Let go of whatever still generates."""
        for ticket in generation.tickets:
            if ticket.ended < ticket.prompt.answers:
                self._engine.cancel(ticket)

    def tokens(self, prompt: str | list[int]) -> list[int]:
        """Return a prompt's tokens.

        Raises:
            Refused: If there are none for it.
        """
        if isinstance(prompt, list):
            if any(token >= self._tokenizer.vocab_size for token in prompt):
                raise Refused("a token is beyond the vocabulary", param="prompt")
            return prompt
        try:
            return self._tokenizer.encode(prompt)
        except TokenizerUnusable as error:
            raise Refused(str(error), param="prompt") from error


async def read_body(request: Request, kind: type[A]) -> A:
    """Return what a request asks for.

    Raises:
        Refused: If it is not of that kind, naming the field.
    """
    body = await request.body()
    try:
        raw = msgspec.json.decode(body)
        asked = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        raise Refused(message, param=path.strip("`").removeprefix("$.") or None) from error
    except msgspec.DecodeError as error:
        raise Refused(f"the body is no JSON: {error}") from error
    for name in UNSUPPORTED:
        if raw.get(name):
            raise Refused("is not supported here", param=name)
    return asked


def _prompts(prompt: str | list[Any]) -> list[str | list[int]]:
    """Return the prompts of a request: one or several, as text or as tokens."""
    if isinstance(prompt, str) or isinstance(prompt[0], int):
        return [_prompt(prompt)]
    return [_prompt(one) for one in prompt]


def _prompt(prompt: Any) -> str | list[int]:
    if isinstance(prompt, str):
        return prompt
    try:
        return msgspec.convert(prompt, TokenIds)
    except msgspec.ValidationError as error:
        said = f"must be text, tokens or a list of either: {error}"
        raise Refused(said, param="prompt") from error


def _flat(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose content is text: parts of text are joined, others refused."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    if any(not isinstance(part, dict) or part.get("type") != "text" for part in content):
        raise Refused("only parts of text are supported", param="messages")
    return message | {"content": "".join(str(part.get("text", "")) for part in content)}


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(content) + b"\n\n"


async def _refuse(request: Request, refusal: Exception) -> Response:  # noqa: ARG001 the framework's
    assert isinstance(refusal, Refused)  # noqa: S101 registered for these
    return JSONResponse(refusal.body(), refusal.status)
