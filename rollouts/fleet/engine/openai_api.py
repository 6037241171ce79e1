"""Serve an engine with OpenAI's HTTP API, with health, and with tokenization as in vLLM."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rolldeck.structs import message_and_path
from rollouts.fleet.engine.answers import Choice, Generation, Shape
from rollouts.fleet.engine.engine import Prompt, SamplingParams
from rollouts.fleet.engine.openai_messages import (
    BaseRequest,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    Refused,
    TokenIds,
    TokenizeRequest,
)
from rollouts.fleet.engine.serving import EngineFailed, EngineThread
from rollouts.fleet.engine.tokenizers import Tokenizer, TokenizerUnusable

MOST_BODY_BYTES: Final = 32 << 20
UNUSED: Final = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls"),
        *("cache_salt", "priority", "request_id", "rid", "log_metrics", "stream_interval"),
    }
)
"""Fields of OpenAI, vLLM and SGLang that change no answer; accepted with any value."""
NEUTRAL: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "repetition_penalty": 1,
        "length_penalty": 1,
        "min_p": 0,
        "typical_p": 1,
        "min_tokens": 0,
        "min_new_tokens": 0,
        "best_of": 1,
        "top_logprobs": 0,
        "top_logprobs_num": 0,
        "logprob_start_len": -1,
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "tool_choice": "none",
        "detokenize": True,
        "skip_special_tokens": True,
        "spaces_between_special_tokens": True,
        "add_generation_prompt": True,
    }
)
"""The value without effect of unsupported fields. Of others it is null, false and an empty one."""

A = TypeVar("A", bound=Struct)
DEFAULT_TOKENS = 16
"""OpenAI's default for completions; a chat continues to the end of the context."""
MOST_SEED = 1 << 40
MOST_PENDING = 4096
RETRY_SECONDS = 1
LOG_SECONDS = 60.0
"""Interval at which a kind of refusal is logged."""
MOST_KINDS = 1000
logger = logging.getLogger(__name__)
_logged: dict[tuple[str, int, str | None], float] = {}


async def read_body(request: Request, kind: type[A], *, ignored: Collection[str] = ()) -> A:
    """Return the decoded body of a request; see `decoded`."""
    return decoded(await read_json(request), kind, ignored=ignored)


async def read_json(request: Request) -> dict[str, Any]:
    """Return the fields of a request's body.

    Raises:
        Refused: If it is too large, or no JSON object.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise Refused(f"the body exceeds {MOST_BODY_BYTES} bytes", status=413)
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.ValidationError as error:
        raise Refused(f"the body is no JSON object: {error}") from error
    except msgspec.DecodeError as error:
        raise Refused(f"the body is not valid JSON: {error}") from error


def decoded(raw: dict[str, Any], kind: type[A], *, ignored: Collection[str] = ()) -> A:
    """Return a body as a struct; null counts as absent.

    Args:
        raw: The fields of the body.
        kind: Their schema.
        ignored: Fields of `kind` whose unknown fields are ignored.

    Raises:
        Refused: If a field is invalid or not supported; `param` names it.
    """
    given = {name: value for name, value in raw.items() if value is not None}
    if isinstance(params := given.get("sampling_params"), dict):
        given["sampling_params"] = {
            name: value for name, value in params.items() if value is not None
        }
    try:
        body = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        message, path = message_and_path(error)
        raise Refused(message, param=path.lstrip(".") or None) from error
    check_fields(given, kind, ignored=ignored)
    return body


def check_fields(
    raw: Mapping[str, Any], kind: type[Struct], *, path: str = "", ignored: Collection[str] = ()
) -> None:
    """Check that a request has only fields that are supported, or without effect.

    Args:
        raw: The decoded body.
        kind: Its schema.
        path: Location of `raw`, with a dot at its end.
        ignored: Fields whose own fields are not checked.

    Raises:
        Refused: With the first other field.
    """
    schema = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in raw.items():
        inner = schema.get(name)
        if name in schema:
            if isinstance(inner, type) and issubclass(inner, Struct) and name not in ignored:
                check_fields(value, inner, path=f"{path}{name}.")
            continue
        # By identity: 0 has an effect in some fields.
        is_empty = value is False or (isinstance(value, str | list | dict) and not value)
        is_neutral = value == NEUTRAL[name] if name in NEUTRAL else is_empty
        if name not in UNUSED and not is_neutral:
            raise Refused(f"{path}{name} is not supported", param=f"{path}{name}")


class OpenAiApi:
    """ASGI application, `app`, for an engine's thread."""

    def __init__(
        self,
        engine: EngineThread,
        *,
        tokenizer: Tokenizer,
        model: str,
        context: int,
        most_pending: int = MOST_PENDING,
    ) -> None:
        """Set up the application.

        Args:
            engine: Engine thread that generates.
            tokenizer: Tokenizer of its model.
            model: Model name that clients use.
            context: Maximum length of a prompt and its answer together.
            most_pending: Maximum number of unfinished answers; further requests get status 503.
        """
        self._pending, self._most_pending = 0, most_pending
        self._engine, self._tokenizer = engine, tokenizer
        self._model, self._context = model, context
        self.app = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/tokenize", self._tokenize, methods=["POST"]),
                Route("/detokenize", self._detokenize, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/v1/completions", self._complete, methods=["POST"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
            ],
            exception_handlers={Refused: refuse, ClientDisconnect: _gone},
        )

    async def _health(self, request: Request) -> Response:  # noqa: ARG002 required signature
        progress = self._engine.progress
        status = 503 if self._engine.error else 200
        body = {
            "status": "failed" if self._engine.error else "ready",
            "error": self._engine.error,
            "running": progress.running,
            "waiting": progress.waiting,
            "tokens": progress.tokens,
            "policy_version": list(progress.version),
            "run": self._engine.run,
        }
        return JSONResponse(body, status)

    async def _models(self, request: Request) -> Response:  # noqa: ARG002 required signature
        one = {"id": self._model, "object": "model", "created": 0, "owned_by": "rolldeck"}
        shown = one | {"max_model_len": self._context}
        return JSONResponse({"object": "list", "data": [shown]})

    async def _tokenize(self, request: Request) -> Response:
        body = await read_body(request, TokenizeRequest)
        self.check_model(body.model)
        tokens = self._rendered(body.messages)
        return JSONResponse(
            {"count": len(tokens), "tokens": tokens, "max_model_len": self._context}
        )

    async def _detokenize(self, request: Request) -> Response:
        body = await read_body(request, DetokenizeRequest)
        text = self._tokenizer.decode_with_special(self.tokens(body.tokens, param="tokens"))
        return JSONResponse({"prompt": text})

    async def _complete(self, request: Request) -> Response:
        body = await read_body(request, CompletionRequest)
        given: Any = body.prompt
        # One or several prompts, as text or tokens.
        is_single = isinstance(given, str) or isinstance(given[0], int)
        try:
            texts = [
                one if isinstance(one, str) else msgspec.convert(one, TokenIds)
                for one in ([given] if is_single else given)
            ]
        except msgspec.ValidationError as error:
            problem = f"must be text, tokens or a list of either: {error}"
            raise Refused(problem, param="prompt") from error
        prompts = [self.tokens(one) for one in texts]
        most = body.max_tokens or DEFAULT_TOKENS
        return await self._answer(
            request, body, prompts, most=most, with_logprobs=body.logprobs is not None
        )

    async def _chat(self, request: Request) -> Response:
        body = await read_body(request, ChatRequest)
        tokens = self._rendered(body.messages)
        most = body.max_completion_tokens or body.max_tokens or self._context
        return await self._answer(
            request, body, [tokens], most=most, with_logprobs=bool(body.logprobs)
        )

    def _rendered(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Return the prompt tokens of a chat."""
        flat = []
        for message in messages:
            content = message.get("content")
            if isinstance(content, list):
                if any(
                    not isinstance(part, dict) or part.get("type") != "text" for part in content
                ):
                    raise Refused("only text parts are supported", param="messages")
                content = "".join(str(part.get("text", "")) for part in content)
            flat.append(message | {"content": content} if "content" in message else message)
        try:
            text = self._tokenizer.render(flat)
        except TokenizerUnusable as error:
            raise Refused(str(error), param="messages") from error
        return self.tokens(text)

    async def _answer(
        self,
        request: Request,
        body: BaseRequest,
        prompts: list[list[int]],
        *,
        most: int,
        with_logprobs: bool,
    ) -> Response:
        self.check_model(body.model)
        shape = Shape(
            is_chat=isinstance(body, ChatRequest),
            identity=f"cmpl-{secrets.token_hex(12)}",
            model=self._model,
            with_logprobs=with_logprobs,
            with_token_ids=body.return_token_ids,
            with_numbers=body.return_tokens_as_token_ids,
            prompts=prompts,
            answers_each=body.n or 1,
            tokenizer=self._tokenizer,
        )
        if body.stream:
            self._check_room(shape)
            counts = bool((body.stream_options or {}).get("include_usage"))
            generation = self._generation(shape, body, most)
            return StreamingResponse(
                self._stream(generation, shape, counts=counts), media_type="text/event-stream"
            )
        return JSONResponse(shape.response(await self.choices(request, shape, body, most)))

    async def choices(
        self, request: Request, shape: Shape, body: BaseRequest, most: int
    ) -> list[Choice]:
        """Return the answers to the prompts of `shape`, each of at most `most` tokens.

        Raises:
            Refused: If they cannot be generated.
            ClientDisconnect: If the client disconnected.
        """
        self._check_room(shape)
        with self._counted(shape), self._generation(shape, body, most) as generation:
            return await generation.finished(request)

    async def prompt_logprobs(
        self, tokens: Sequence[int], *, likeliest: int
    ) -> list[dict[int, float]]:
        """Return the log probabilities of a prompt; see :meth:`Engine.prompt_logprobs`.

        Raises:
            Refused: If the engine has ended.
        """
        try:
            return await asyncio.wrap_future(
                self._engine.prompt_logprobs(tokens, likeliest=likeliest)
            )
        except EngineFailed as error:
            raise Refused(str(error), status=503) from error

    def _generation(self, shape: Shape, body: BaseRequest, most: int) -> Generation:
        stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
        end = [] if body.ignore_eos else [self._tokenizer.end]
        seed = secrets.randbelow(MOST_SEED) if body.seed is None else body.seed % MOST_SEED
        sampling = SamplingParams(
            max_tokens=most,
            temperature=1.0 if body.temperature is None else body.temperature,
            top_p=body.top_p or 1.0,
            top_k=max(0, body.top_k or 0),
            stop_tokens=frozenset([*end, *(body.stop_token_ids or [])]),
            stop=tuple(stop),
        )
        prompts = []
        for place, tokens in enumerate(shape.prompts):
            if not 0 < len(tokens) < self._context:
                has, room = len(tokens), self._context - 1
                raise Refused(
                    f"the prompt has {has} tokens; 1 to {room} fit the context",
                    param="messages" if shape.is_chat else "prompt",
                    code="context_length_exceeded",
                )
            own = replace(sampling, seed=seed + place)
            prompts.append(Prompt(tokens=tuple(tokens), sampling=own, answers=shape.answers_each))
        return Generation(
            self._engine,
            prompts,
            tokenizer=self._tokenizer,
            includes_stop=body.include_stop_str_in_output,
            hears_each_token=bool(body.stream),
        )

    async def _stream(
        self, generation: Generation, shape: Shape, *, counts: bool
    ) -> AsyncIterator[bytes]:
        sent = dict.fromkeys(range(len(generation.choices)), 0)
        try:
            with self._counted(shape), generation:
                async for choice, new in generation.pieces():
                    if new or choice.finish or shape.with_token_ids:
                        yield _event(shape.chunk(choice, new, sent[choice.index]))
                        sent[choice.index] = len(choice.tokens)
                if counts:
                    yield _event(shape.usage_chunk(generation.choices))
        except Refused as failure:
            yield _event(failure.body())
        yield b"data: [DONE]\n\n"

    def _check_room(self, shape: Shape) -> None:
        """Refuse a request if too many answers are pending; a lone request is always accepted."""
        answers = len(shape.prompts) * shape.answers_each
        if self._pending and self._pending + answers > self._most_pending:
            raise Refused(
                f"{self._pending} answers pending, limit {self._most_pending}; retry later",
                status=503,
            )

    @contextmanager
    def _counted(self, shape: Shape) -> Iterator[None]:
        """Count the answers of a request as pending."""
        answers = len(shape.prompts) * shape.answers_each
        self._pending += answers
        try:
            yield
        finally:
            self._pending -= answers

    def check_model(self, name: str) -> None:
        """Check the model name of a request, if it has one.

        Raises:
            Refused: If this server has another model.
        """
        if name and name != self._model:
            raise Refused(f"model {name!r} does not exist", param="model", status=404)

    def tokens(self, prompt: str | list[int], *, param: str = "prompt") -> list[int]:
        """Return a prompt's tokens.

        Raises:
            Refused: If it cannot be tokenized, or contains an invalid token.
        """
        if isinstance(prompt, list):
            if any(token >= self._tokenizer.vocab_size for token in prompt):
                raise Refused(
                    f"a token is outside the vocabulary, 0 to {self._tokenizer.vocab_size - 1}",
                    param=param,
                    code="token_unknown",
                )
            return prompt
        try:
            return self._tokenizer.encode(prompt)
        except TokenizerUnusable as error:
            raise Refused(str(error), param=param) from error


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(content) + b"\n\n"


async def refuse(request: Request, refusal: Exception) -> Response:
    """Return the response of a `Refused` request, and log its kind once a minute."""
    assert isinstance(refusal, Refused)  # noqa: S101 registered for this class
    kind, now = (request.url.path, refusal.status, refusal.param), time.monotonic()
    if now - _logged.get(kind, -LOG_SECONDS) >= LOG_SECONDS:
        if len(_logged) >= MOST_KINDS:
            _logged.clear()
        _logged[kind] = now
        where = f" ({refusal.param})" if refusal.param else ""
        logger.warning("refused %s with %d%s: %s", kind[0], kind[1], where, refusal)
    headers = {"Retry-After": str(RETRY_SECONDS)} if refusal.status == 503 else None
    return JSONResponse(refusal.body(), refusal.status, headers)


async def _gone(request: Request, hung_up: Exception) -> Response:  # noqa: ARG001 signature
    """Return status 499, which proxies log for clients that disconnected."""
    return Response(status_code=499)
