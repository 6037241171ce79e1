"""HTTP endpoint for weights, for trainers without a platform."""

import asyncio
from typing import Any, Final

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rollouts.fleet.engine.checkpoints import CheckpointUnreadable
from rollouts.fleet.engine.following import WeightsSwap
from rollouts.fleet.engine.openai_messages import RUN, Refused, in_use
from rollouts.fleet.engine.serving import EngineThread

HEADER_BYTES: Final = 8 << 20
"""Extra space for the file's header."""
ADOPT_SECONDS: Final = 60.0


class WeightsApi:
    """Endpoint ``PUT /v1/weights/<epoch>/<step>`` for a safetensors file with Hugging Face's names.

    The response is sent once that version or a later one is in use. The first upload with ``?run=``
    reserves the server for that run until the server ends.
    """

    def __init__(self, thread: EngineThread, weights: WeightsSwap) -> None:
        self._thread, self._weights = thread, weights
        self._most_bytes = weights.size_bytes + HEADER_BYTES
        self._one_at_a_time = asyncio.Lock()

    @property
    def routes(self) -> list[Route]:
        """Routes to add to the OpenAI-compatible ones."""
        return [Route("/v1/weights/{epoch:int}/{step:int}", self._put, methods=["PUT"])]

    async def _put(self, request: Request) -> Response:
        version = request.path_params["epoch"], request.path_params["step"]
        run = request.query_params.get("run", "")
        async with self._one_at_a_time:
            self._check_run(run)
            current = self._thread.progress.version
            if version <= current:
                problem = f"version {list(version)} is not later than {list(current)}"
                raise Refused(problem, param="step", status=409)
            content = await self._read(request)
            await asyncio.to_thread(self._load, content, version)
            self._thread.run = run or self._thread.run
        return JSONResponse({"policy_version": list(self._thread.progress.version)})

    def _check_run(self, run: str) -> None:
        owner, version = self._thread.run, self._thread.progress.version
        if run and owner and run != owner:
            raise Refused(in_use(owner, version), param=RUN, status=409)

    async def _read(self, request: Request) -> bytes:
        content = bytearray()
        async for piece in request.stream():
            content += piece
            if len(content) > self._most_bytes:
                problem = f"the body exceeds the {self._most_bytes} bytes of the weights"
                raise Refused(problem, param="body", status=413)
        return bytes(content)

    def _load(self, content: bytes, version: tuple[int, int]) -> None:
        try:
            tensors: dict[str, Any] = load_tensors(content)
            self._weights.swap(tensors, version)
        except (SafetensorError, CheckpointUnreadable, msgspec.DecodeError, ValueError) as error:
            raise Refused(str(error), param="body") from error
        if not self._thread.wait_for_version(version, timeout_seconds=ADOPT_SECONDS):
            raise Refused(
                self._thread.error or f"the weights were not in use after {ADOPT_SECONDS:.0f} s",
                status=503,
            )
