"""Stand-in for vLLM with our backend of its weight transfer."""

import asyncio
import hashlib
import json
from pathlib import Path

import httpx
from safetensors.torch import load
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from torch import Tensor

from rollouts.fleet.engine.checkpoints import assign
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from tests.stand_ins.vllm_server import VllmStandIn, WorkerFailed

ACTIVE = "start_weight_update called while a weight update is already active. Call finish"


class TransferVllmStandIn(VllmStandIn):
    """Started with ``--weight-transfer-config '{"backend": "rolldeck"}'``."""

    def __init__(self, folder: Path, model: Transformer, tokenizer: Tokenizer) -> None:
        super().__init__(folder, model, tokenizer)
        self._files: dict[str, asyncio.Task[dict[str, Tensor]]] = {}
        self._is_active = False

    def app(self) -> Starlette:
        app = super().app()
        for name in ("init_weight_transfer_engine", "start_weight_update", "update_weights"):
            app.routes.append(Route(f"/{name}", getattr(self, f"_{name}"), methods=["POST"]))
        app.routes.append(
            Route("/finish_weight_update", self._finish_weight_update, methods=["POST"])
        )
        return app

    async def _init_weight_transfer_engine(self, request: Request) -> Response:
        source = (await request.json())["init_info"]
        if source["sha256"] not in self._files:
            self._files[source["sha256"]] = asyncio.create_task(_downloaded(**source))
        return JSONResponse({"message": "Weight transfer initialized"})

    async def _start_weight_update(self, _request: Request) -> Response:
        if self._is_active:
            raise WorkerFailed(ACTIVE)
        self._is_active = True
        return JSONResponse({"message": "Weight update started"})

    async def _update_weights(self, request: Request) -> Response:
        chosen = (await request.json())["update_info"]["sha256"]
        if not self._is_active:
            raise WorkerFailed("start_weight_update must be called before update_weights.")
        try:
            given = await self._files.pop(chosen)
            _check(self._tensors, given)
        except (KeyError, ValueError) as error:
            self._is_active = False
            raise WorkerFailed(str(error)) from error
        self._tensors = given
        model = Transformer(self.config)
        assign(model, given)
        self.use(model.eval())
        self.calls.append("/update_weights")
        return JSONResponse({"message": "Weights updated"})

    async def _finish_weight_update(self, request: Request) -> Response:
        if not self._is_active:
            raise WorkerFailed("finish_weight_update called without a matching start")
        self._is_active = False
        label = json.loads(await request.body()).get("weight_version")
        if label is not None:
            self._labels[self.loads] = label
        return JSONResponse({"message": "Weight update finished"})


async def _downloaded(url: str, size: int, sha256: str) -> dict[str, Tensor]:
    async with httpx.AsyncClient() as http:
        content = (await http.get(url)).content
    if len(content) != size or hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"weights cannot be downloaded from {url}")
    return load(content)


def _check(served: dict[str, Tensor], given: dict[str, Tensor]) -> None:
    shapes = [{name: tuple(one.shape) for name, one in each.items()} for each in (served, given)]
    if shapes[0] != shapes[1]:
        raise WeightsDoNotFit.between(*shapes)
