"""Weights of a serving engine: those that a trainer publishes, or sends over HTTP."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from torch import Tensor

from rolldeck.errors import InvalidMessageError
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable, assign
from rollouts.fleet.engine.openai_messages import RUN, Refused, in_use
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.transformer import Transformer, TransformerConfig
from rollouts.fleet.policies.base import tensor_of
from rollouts.fleet.weights.records import Version, WeightsRecord, WeightsSource, WeightsUnavailable

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 2.0
BOOTSTRAP: Final[Version] = (0, -1)
"""Version of unpublished weights: older than every published version."""
HEADER_BYTES: Final = 8 << 20
"""Extra space for the file's header."""
ADOPT_SECONDS: Final = 60.0


class WeightsFollower:
    """Thread that polls for newer versions and loads each one between two steps."""

    def __init__(
        self,
        thread: EngineThread,
        weights: "WeightsSwap",
        source: WeightsSource,
        *,
        close_source: Callable[[], None],
    ) -> None:
        """Start following.

        Args:
            thread: Engine thread to update.
            weights: Builds models from published tensors.
            source: Source of the versions.
            close_source: Called by this thread at its end. Another thread could close the source
                in the middle of a request.
        """
        self._thread, self._weights, self._source = thread, weights, source
        self._close_source = close_source
        self._tried: Version = thread.progress.version
        """Last version that was adopted or refused."""
        self._stop = threading.Event()
        self._runner = threading.Thread(target=self._run, name="weights", daemon=True)
        self._runner.start()

    def close(self) -> None:
        """Stop after the current attempt, without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        wait, said = 0.0, ""
        try:
            while not self._stop.wait(wait):
                wait = POLL_SECONDS
                try:
                    record = self._source.receive((self._tried[0], self._tried[1] + 1))
                except (WeightsUnavailable, InvalidMessageError) as failure:
                    text = f"no weights received: {failure}"
                    if text != said:
                        logger.warning("%s", text)
                    wait, said = RETRY_SECONDS, text
                    continue
                said = ""
                if record is not None:
                    self._load(record)
        finally:
            self._close_source()

    def _load(self, record: WeightsRecord) -> None:
        self._tried = record.version
        try:
            self._weights.swap(record.tensors, record.version)
        except CheckpointUnreadable as misfit:
            logger.error("version %s refused: %s", list(record.version), misfit)  # noqa: TRY400
            return
        logger.info("version %s loaded", list(record.version))


class WeightsSwap:
    """Builds models from published tensors and loads them into an engine."""

    def __init__(
        self,
        thread: EngineThread,
        config: TransformerConfig,
        *,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        self._thread, self._config = thread, config
        self._device, self._dtype = device, dtype

    @property
    def size_bytes(self) -> int:
        """Size of the weights as float32: the largest plausible size of a file."""
        with torch.device("meta"):
            model = Transformer(self._config)
        return 4 * sum(weight.numel() for weight in model.parameters())

    def swap(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Use `tensors` from the next step on.

        Args:
            tensors: NumPy arrays or torch tensors under Hugging Face's names.
            version: Version of the tensors.

        Raises:
            CheckpointUnreadable: If names or shapes do not match the model; nothing changes.
        """
        with torch.device("meta"):
            model = Transformer(self._config)
        found = {
            name: value if isinstance(value, Tensor) else tensor_of(value)
            for name, value in tensors.items()
        }
        assign(model, found, device=self._device, dtype=self._dtype)
        self._thread.update_weights(model, version)


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
            current, owner = self._thread.progress.version, self._thread.run
            if run and owner and run != owner:
                raise Refused(in_use(owner, current), param=RUN, status=409)
            if version <= current:
                problem = f"version {list(version)} is not later than {list(current)}"
                raise Refused(problem, param="step", status=409)
            content = bytearray()
            async for piece in request.stream():
                content += piece
                if len(content) > self._most_bytes:
                    problem = f"the body exceeds the {self._most_bytes} bytes of the weights"
                    raise Refused(problem, param="body", status=413)
            await asyncio.to_thread(self._load, bytes(content), version)
            self._thread.run = run or self._thread.run
        return JSONResponse({"policy_version": list(self._thread.progress.version)})

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
