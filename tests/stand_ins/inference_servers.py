"""Stand-ins for vLLM and SGLang: their HTTP routes, with our engine and a small model behind.

They answer with the originals' fields only, and load weights from a folder on request, as those
servers do. The routes and fields are those of vLLM 0.10 to 0.32 and SGLang 0.5. The tests in
tests/partners hold vLLM itself to the same contract.
"""

import asyncio
import json
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.generate_api import GenerateApi
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.openai_messages import Refused
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.engine.transformer import Transformer
from tests.live_server import QuickServer
from tests.stand_ins.adapters import AdapterRefused, LoadedAdapters
from tests.waiting import eventually

SGLANG_PARAMS = {
    *("max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k"),
    *("min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens"),
    *("n", "json_schema", "regex", "ebnf", "structural_tag", "ignore_eos", "skip_special_tokens"),
    *("spaces_between_special_tokens", "no_stop_trim", "custom_params", "stream_interval"),
    *("logit_bias", "sampling_seed"),
}
"""Fields of SGLang's `SamplingParams`; it rejects requests with others."""


MAX_LORA_RANK = 8
"""Option ``--max-lora-rank``."""


class StandIn(ABC):
    """Base of both stand-ins: an engine started on a folder, and a list of received requests."""

    def __init__(self, folder: Path, model: Transformer, tokenizer: Tokenizer) -> None:
        checkpoints.save(model, folder)
        self.folder, self.calls = folder, list[str]()
        context = model.config.max_position_embeddings
        self.thread = EngineThread(Engine(model, rows=8, tokenizer=tokenizer), context=context)
        self.api = OpenAiApi(self.thread, tokenizer=tokenizer, model="small", context=context)
        self.is_paused = self.is_asleep = False
        self.resumed = asyncio.Event()
        self.resumed.set()
        self.config = model.config
        self.loads = 0
        self.label = "default"
        self.adapters = LoadedAdapters(model, tokenizer, max_rank=MAX_LORA_RANK)

    @abstractmethod
    def app(self) -> Starlette:
        """Return the server's application."""

    def close(self) -> None:
        """End the engines."""
        self.thread.close()
        self.adapters.close()

    def load(self) -> str:
        """Reload the folder; return its error, or an empty string."""
        try:
            self.use(checkpoints.load(self.folder))
        except checkpoints.CheckpointUnreadable as error:
            return str(error)
        return ""

    def use(self, model: Transformer) -> None:
        """Generate with a model from now on."""
        assert self.is_paused, "weights must not change between two tokens"
        self.loads += 1
        self.thread.update_weights(model, (0, self.loads))
        assert self.thread.wait_for_version((0, self.loads), timeout_seconds=30)

    def route(self, path: str, *, pauses: bool) -> Route:
        async def record(request: Request) -> Response:
            self.calls.append(str(request.url).removeprefix(str(request.base_url)[:-1]))
            self.is_paused = pauses
            (self.resumed.clear if pauses else self.resumed.set)()
            return JSONResponse({"status": "paused" if pauses else "resumed"})

        return Route(path, record, methods=["POST"])


async def _refused_by_sglang(_request: Request, refusal: Exception) -> Response:
    """Answer as SGLang's `/generate`: with a message only."""
    assert isinstance(refusal, Refused)
    return JSONResponse({"error": {"message": str(refusal)}}, refusal.status)


class SglangStandIn(StandIn):
    """Stand-in for SGLang."""

    def app(self) -> Starlette:
        inner = {route.path: route for route in self.api.app.routes if isinstance(route, Route)}
        return Starlette(
            routes=[
                inner["/health"],
                inner["/v1/models"],
                Route("/model_info", self._info),
                Route("/generate", self._generate, methods=["POST"]),
                self.route("/pause_generation", pauses=True),
                Route("/update_weights_from_disk", self._update, methods=["POST"]),
                self.route("/continue_generation", pauses=False),
                Route("/release_memory_occupation", self._release, methods=["POST"]),
                Route("/resume_memory_occupation", self._resume, methods=["POST"]),
                Route("/load_lora_adapter", self._load_adapter, methods=["POST"]),
                Route("/unload_lora_adapter", self._unload_adapter, methods=["POST"]),
            ],
            exception_handlers=self.api.app.exception_handlers | {Refused: _refused_by_sglang},
        )

    async def _generate(self, request: Request) -> Response:
        assert not self.is_asleep, "the memory of the weights is released"
        body = json.loads(await request.body())
        if unknown := body["sampling_params"].keys() - SGLANG_PARAMS:
            wrong = f"Unexpected keyword argument '{min(unknown)}'"
            return JSONResponse({"error": {"message": wrong}}, 400)
        adapter = body.pop("lora_path", None)
        if adapter is not None and adapter not in self.adapters.apis:
            wrong = f"The following requested LoRA adapters are not loaded: {adapter}"
            return JSONResponse({"error": {"message": wrong}}, 400)
        api = self.api if adapter is None else self.adapters.apis[adapter]
        generate = GenerateApi(api, api._tokenizer, context=api._context)
        answered = await generate.sglang(request, body)
        response = json.loads(answered.body)
        for row in response if isinstance(response, list) else [response]:
            del row["meta_info"]["policy_versions"]
            row["meta_info"]["weight_version"] = self.label
        return JSONResponse(response)

    async def _load_adapter(self, request: Request) -> Response:
        body = json.loads(await request.body())
        name, wrong = body["lora_name"], ""
        self.calls.append(f"/load_lora_adapter {name}")
        if name in self.adapters.apis:
            wrong = f"LoRA adapter {name} is already loaded."
        else:
            try:
                self.adapters.load(name, Path(body["lora_path"]))
            except AdapterRefused as refusal:
                wrong = str(refusal)
        return self._adapted(wrong)

    async def _unload_adapter(self, request: Request) -> Response:
        name = json.loads(await request.body())["lora_name"]
        self.calls.append(f"/unload_lora_adapter {name}")
        found = self.adapters.apis.pop(name, None)
        return self._adapted("" if found else f"LoRA with name {name} does not exist.")

    def _adapted(self, wrong: str) -> Response:
        loaded = dict.fromkeys(self.adapters.apis, "")
        result = {"success": not wrong, "error_message": wrong, "loaded_adapters": loaded}
        return JSONResponse(result, 400 if wrong else 200)

    async def _release(self, request: Request) -> Response:
        assert json.loads(await request.body()) == {}
        assert not self.thread.progress.running, "requests are in progress"
        self.is_asleep = True
        return JSONResponse(None)

    async def _resume(self, request: Request) -> Response:
        assert json.loads(await request.body()) == {}
        assert self.is_asleep, "nothing was released"
        self.is_asleep = False
        return JSONResponse(None)

    async def _info(self, _request: Request) -> Response:
        return JSONResponse({"model_path": str(self.folder), "weight_version": self.label})

    async def _update(self, request: Request) -> Response:
        assert not self.is_asleep, "the memory of the weights is released"
        request_body: dict[str, Any] = json.loads(await request.body())
        self.calls.append(f"/update_weights_from_disk {request_body['model_path']}")
        wrong = self.load()
        if not wrong:
            self.label = request_body.get("weight_version") or self.label
        result = {"success": not wrong, "message": wrong, "num_paused_requests": 0}
        return JSONResponse(result, 400 if wrong else 200)


@contextmanager
def listening(app: Starlette, *, port: int = 0) -> Iterator[str]:
    """Serve an application in a thread and yield its URL; 0 for any free port."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        config = uvicorn.Config(app, log_level="warning", lifespan="off")
        server = QuickServer(config)
        runner = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        runner.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        eventually(lambda: server.started, 60)
        assert httpx.get(f"{url}/health", timeout=60).status_code == 200
        yield url
        server.should_exit = True
        runner.join(10)


def with_body(request: Request, body: dict[str, Any]) -> Request:
    """Return a request with another body, which still notices a disconnected client."""
    bodies = [json.dumps(body).encode()]

    async def receive() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return await request.receive()

    return Request(request.scope, receive)
