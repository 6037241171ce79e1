"""Generation over HTTP for an environment in another process, with a record of every answer.

The environment's client sends tokens to vLLM's ``POST /inference/v1/generate`` on loopback. The
lesson's sampling parameters apply; the request only adds stop tokens. Each rollout has a key, which
the client sends in ``sampling_params.extra_args.rollout``.
"""

import asyncio
import secrets
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rollouts.fleet.engine.engine import Answer, PromptTooLong
from rollouts.fleet.engine.generate_api import ROUTE, TokenRequest, choice_of, response_of
from rollouts.fleet.engine.openai_api import read_body, refuse
from rollouts.fleet.engine.openai_messages import Refused
from rollouts.fleet.groups.errors import SamplingStopped
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.process.settings import derive_seed

MODEL: Final = "policy"
CALLS_AT_ONCE: Final = 64
START_SECONDS: Final = 10.0


@dataclass(slots=True)
class RecordedRollout:
    """Answers of the policy in one rollout."""

    policy: PolicyContext
    seed: int
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    answers: dict[tuple[tuple[int, ...], tuple[int, ...]], Answer] = field(default_factory=dict)
    """Answers by their prompt and their tokens."""
    is_overlong: bool = False
    """Whether a prompt was refused because of its length."""
    failure: SamplingStopped | InferenceFailed | None = None

    def generate(self, tokens: Sequence[int], stop_tokens: Sequence[int]) -> Answer:
        """Return the policy's answer to a prompt, and record it.

        Raises:
            Refused: If the prompt does not fit, or the policy cannot answer.
        """
        try:
            # Equal seeds and prompts give equal answers, in any order of the rollouts.
            prompt = self.policy.prompt(
                tokens, answers=1, seed=derive_seed(self.seed, str(len(tokens)))
            )
            stops = prompt.sampling.stop_tokens | frozenset(stop_tokens)
            prompt = replace(prompt, sampling=replace(prompt.sampling, stop_tokens=stops))
            [[answer]] = self.policy.generate([prompt])
        except PromptTooLong as error:
            self.is_overlong = True
            raise Refused(
                f"{error}: maximum context length exceeded",
                param="token_ids",
                code="context_length_exceeded",
            ) from error
        except (SamplingStopped, InferenceFailed) as failure:
            self.failure = failure
            raise Refused(f"the policy cannot answer: {failure}", status=503) from failure
        self.answers[tuple(tokens), tuple(answer.tokens)] = answer
        return answer


class TokenServer:
    """HTTP server on loopback for the rollouts of one environment; thread-safe."""

    def __init__(self, *, context_tokens: int, api_key: str) -> None:
        """Start serving; a prompt and its answer have at most `context_tokens` together."""
        self._context, self._api_key = context_tokens, api_key
        self._rollouts: dict[str, RecordedRollout] = {}
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="token-server")
        app = Starlette(
            routes=[
                Route(ROUTE, self._generate, methods=["POST"]),
                Route("/v1/models", self._models),
            ],
            exception_handlers={Refused: refuse},
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def add(self, rollout: RecordedRollout) -> None:
        """Accept requests of a rollout."""
        self._rollouts[rollout.key] = rollout

    def remove(self, rollout: RecordedRollout) -> None:
        """Refuse further requests of a rollout."""
        self._rollouts.pop(rollout.key, None)

    def close(self) -> None:
        """End the server without waiting for answers in progress."""
        self._server.should_exit = self._server.force_exit = True
        self._listener.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _models(self, request: Request) -> Response:
        self._admit(request)
        shown = {"id": MODEL, "object": "model", "created": 0, "owned_by": "rolldeck"}
        return JSONResponse(
            {"object": "list", "data": [shown | {"max_model_len": self._context - 1}]}
        )

    async def _generate(self, request: Request) -> Response:
        self._admit(request)
        # The parameters of the lesson apply.
        body = await read_body(request, TokenRequest, ignored=["sampling_params"])
        if body.sampling_params.n != 1:
            raise Refused("must be 1", param="sampling_params.n")
        key = str((body.sampling_params.extra_args or {}).get("rollout"))
        rollout = self._rollouts.get(key)
        if rollout is None:
            raise Refused(
                f"no rollout {key!r} in progress", param="sampling_params.extra_args", status=404
            )
        stops = body.sampling_params.stop_token_ids or []
        answer = await asyncio.get_running_loop().run_in_executor(
            self._pool, rollout.generate, body.token_ids, stops
        )
        choice = choice_of(
            0,
            tokens=answer.tokens,
            logprobs=answer.logprobs,
            versions=answer.versions,
            finish=answer.finish,
        )
        return JSONResponse(response_of(f"{key}-{len(rollout.answers)}", [choice]))

    def _admit(self, request: Request) -> None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not secrets.compare_digest(given.encode(), self._api_key.encode()):
            raise Refused("the API key is invalid", status=401)
