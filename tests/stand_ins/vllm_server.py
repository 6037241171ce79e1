"""Stand-in for vLLM 0.32 in its development mode; see tests/stand_ins/inference_servers.py.

It is as strict and as lax as vLLM: it keeps earlier values of missing tensors, other wrong weights
end its engine, and it closes a connection after an error.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from torch import Tensor

from rollouts.fleet.engine.checkpoints import assign, named_tensors
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.engine.transformer import Transformer
from tests.stand_ins.adapters import AdapterRefused
from tests.stand_ins.inference_servers import StandIn, with_body

MAX_NUM_SEQS = 64
DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class WorkerFailed(Exception):
    """A worker raised; uvicorn sends status 500 and closes the connection."""


class VllmStandIn(StandIn):
    """Stand-in for vLLM with ``--enable-scale-out``."""

    is_scaled_out = True
    dies_of_weights = True
    loads_adapters = True
    """Whether it was started with ``VLLM_ALLOW_RUNTIME_LORA_UPDATING=1``."""
    device = "cpu"

    def __init__(self, folder: Path, model: Transformer, tokenizer: Tokenizer) -> None:
        super().__init__(folder, model, tokenizer)
        self._tensors = dict(named_tensors(model))
        self._labels = {-1: "default"}
        """Labels by the first load that has them."""
        self._context = model.config.max_position_embeddings
        self._is_dead = False
        self._awake = asyncio.Event()
        self._awake.set()

    def app(self) -> Starlette:
        inner = {route.path: route for route in self.api.app.routes if isinstance(route, Route)}
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/server_info", self._info),
                inner["/v1/models"],
                Route("/v1/completions", self._complete, methods=["POST"]),
                Route("/inference/v1/generate", self._generate, methods=["POST"]),
                self.route("/pause", pauses=True),
                Route("/collective_rpc", self._call, methods=["POST"]),
                self.route("/reset_prefix_cache", pauses=True),
                Route("/update_weight_version", self._label, methods=["POST"]),
                Route("/weight_info", self._weight_info),
                self.route("/resume", pauses=False),
                Route("/sleep", self._sleep, methods=["POST"]),
                Route("/wake_up", self._wake, methods=["POST"]),
                *(self._adapter_routes() if self.loads_adapters else []),
            ],
            exception_handlers=self.api.app.exception_handlers | {Exception: _failed},
        )

    def load(self) -> str:
        """Reload the folder; missing tensors keep their values."""
        read = _weights_in(self.folder)
        for name, tensor in read.items():
            if name not in self._tensors:
                return f"There is no module or parameter named '{name}'"
            if tensor.shape != (expected := self._tensors[name].shape):
                return f"Attempted to load weight ({tensor.shape}) into parameter ({expected})"
        self._tensors |= read
        model = Transformer(self.config)
        assign(model, self._tensors)
        self.use(model.eval())
        return ""

    async def _health(self, _request: Request) -> Response:
        return Response(status_code=503 if self._is_dead else 200)

    async def _info(self, _request: Request) -> Response:
        return JSONResponse({"vllm_config": {"device_config": {"device": self.device}}})

    async def _complete(self, request: Request) -> Response:
        body = json.loads(await request.body())
        assert body["logprobs"] == 0
        assert body["return_token_ids"]
        if self._is_dead:
            return _error(DEAD, 500)
        wrong, param = _wrong_in(body, context=self._context, vocab_size=self.config.vocab_size)
        if wrong:
            return _error(wrong, 400, param=param)
        completion = await self._completion(request)
        for choice in completion["choices"]:
            del choice["token_logprobs"], choice["policy_versions"]
        return JSONResponse(completion)

    async def _generate(self, request: Request) -> Response:
        if not self.is_scaled_out:
            return _error("Scale-out endpoints are disabled.", 403)
        if self._is_dead:
            return _error(DEAD, 500)
        body = json.loads(await request.body())
        params = body["sampling_params"]
        assert params["logprobs"] == 0
        assert params["detokenize"] or not params["stop"]
        wrong = _wrong_in_generate(body, context=self._context, vocab_size=self.config.vocab_size)
        if wrong:
            return _error(wrong, 400)
        asked = {
            **{name: value for name, value in params.items() if name != "detokenize"},
            "model": body["model"],
            "prompt": body["token_ids"],
            "return_token_ids": True,
        }
        completion = await self._completion(with_body(request, asked))
        for choice in completion["choices"]:
            pairs = zip(choice["token_ids"], choice.pop("token_logprobs"), strict=True)
            content = [{"token_id": token, "logprob": logprob} for token, logprob in pairs]
            choice["logprobs"] = {"content": content}
            choice["weight_versions"] = self._spans(choice.pop("policy_versions"))
            del choice["text"]
        return JSONResponse(completion)

    async def _completion(self, request: Request) -> dict[str, Any]:
        """Return the completion of our engine, with its own fields."""
        await self._awake.wait()
        named = json.loads(await request.body())["model"]
        (route,) = (
            one
            for one in self.adapters.apis.get(named, self.api).app.routes
            if isinstance(one, Route) and one.path == "/v1/completions"
        )
        answer = await route.endpoint(request)
        # No answer ends while the engine is paused.
        await self.resumed.wait()
        completion: dict[str, Any] = json.loads(answer.body)
        return completion

    def _spans(self, versions: list[list[int]]) -> list[dict[str, Any]]:
        """Return labelled spans for ``[epoch, load, tokens]`` of our engine."""
        spans: list[dict[str, Any]] = []
        for _, load, count in versions:
            label = self._labels[max(first for first in self._labels if first <= max(load, -1))]
            start = spans[-1]["end"] if spans else 0
            if spans and spans[-1]["version"] == label:
                spans[-1]["end"] += count
            else:
                spans.append({"version": label, "start": start, "end": start + count})
        return spans

    async def _call(self, request: Request) -> Response:
        call = json.loads(await request.body())
        self.calls.append(f"/collective_rpc {call['method']}")
        assert not self.is_asleep, "the memory of the weights is released"
        if wrong := self.load():
            self._is_dead = self.dies_of_weights
            raise WorkerFailed(wrong)
        return JSONResponse({"results": [None]})

    def _adapter_routes(self) -> list[Route]:
        return [
            Route("/v1/load_lora_adapter", self._load_adapter, methods=["POST"]),
            Route("/v1/unload_lora_adapter", self._unload_adapter, methods=["POST"]),
        ]

    async def _load_adapter(self, request: Request) -> Response:
        body = json.loads(await request.body())
        name = body["lora_name"]
        self.calls.append(f"/v1/load_lora_adapter {name}")
        if name in self.adapters.apis:
            text = f"The lora adapter '{name}' has already been loaded. If you want to load the "
            return _error(f"{text}adapter in place, set 'load_inplace' to True.", 400)
        try:
            self.adapters.load(name, Path(body["lora_path"]))
        except AdapterRefused as refusal:
            return _error(str(refusal), 500)
        return Response(f"Success: LoRA adapter '{name}' added successfully.")

    async def _unload_adapter(self, request: Request) -> Response:
        name = json.loads(await request.body())["lora_name"]
        self.calls.append(f"/v1/unload_lora_adapter {name}")
        if self.adapters.apis.pop(name, None) is None:
            return _error(f"The lora adapter '{name}' cannot be found.", 404)
        return Response(f"Success: LoRA adapter '{name}' removed successfully.")

    async def _sleep(self, request: Request) -> Response:
        assert dict(request.query_params) == {"level": "1", "mode": "wait"}
        self.is_asleep = True
        self._awake.clear()
        return JSONResponse({"status": "sleeping", "level": 1})

    async def _wake(self, _request: Request) -> Response:
        self.is_asleep = False
        self._awake.set()
        return JSONResponse({"status": "awake", "tags": None})

    async def _weight_info(self, _request: Request) -> Response:
        return JSONResponse({"weight_version": self._labels[max(self._labels)]})

    async def _label(self, request: Request) -> Response:
        label = json.loads(await request.body())["new_version"]
        self.calls.append(f"/update_weight_version {label}")
        self._labels[self.loads] = label
        return JSONResponse({"success": True, "new_version": label})


class PlainVllmStandIn(VllmStandIn):
    """Stand-in for vLLM without ``--enable-scale-out``."""

    is_scaled_out = False


def _weights_in(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of the files in the index, or of every file."""
    index = folder / "model.safetensors.index.json"
    files = {path.name for path in folder.glob("*.safetensors")}
    if index.exists():
        files = set(json.loads(index.read_text())["weight_map"].values())
    return {name: value for file in files for name, value in load_file(folder / file).items()}


def _wrong_in(body: dict[str, Any], *, context: int, vocab_size: int) -> tuple[str, str | None]:
    """Return what vLLM rejects in completions, and the parameter that it names."""
    if wrong := _wrong_sampling(body):
        return wrong, None
    if len(body["stop"]) > 4:
        return "List should have at most 4 items after validation", "body.stop"
    length = len(body["prompt"])
    if length == context:
        return "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens"
    if length > context:
        text = f"This model's maximum context length is {context} tokens. However, your prompt "
        return f"{text}contains {length} input tokens.", "input_tokens"
    return _unknown_token(body["prompt"], vocab_size), None


def _wrong_in_generate(body: dict[str, Any], *, context: int, vocab_size: int) -> str:
    """Return what vLLM rejects in a request for ``/inference/v1/generate``."""
    params, length = body["sampling_params"], len(body["token_ids"])
    if wrong := _wrong_sampling(params):
        return wrong
    if params["n"] > MAX_NUM_SEQS:
        return f"sampling_params.n must be at most the server's max_num_seqs ({MAX_NUM_SEQS})."
    if length >= context:
        room = " plus the number of requested output tokens (at least 1)" * (length == context)
        text = f"The decoder prompt (length {length}){room} is longer than the maximum model "
        return f"{text}length of {context}."
    return _unknown_token(body["token_ids"], vocab_size)


def _wrong_sampling(params: dict[str, Any]) -> str:
    """Return what `SamplingParams` rejects."""
    if params["temperature"] < 1e-5 and params["n"] > 1:
        return f"n must be 1 when using greedy sampling, got {params['n']}."
    if any(not text for text in params.get("stop", [])):
        return "stop cannot contain an empty string."
    if not all(isinstance(token, int) for token in params.get("stop_token_ids", [])):
        return f"stop_token_ids must contain only integers, got {params['stop_token_ids']}."
    return ""


def _unknown_token(tokens: list[int], vocab_size: int) -> str:
    unknown = [token for token in tokens if token >= vocab_size]
    return f"Token id {unknown[0]} is out of vocabulary" if unknown else ""


def _error(message: str, status: int, *, param: str | None = None) -> Response:
    kind = "InternalServerError" if status >= 500 else "BadRequestError"
    error = {"message": message, "type": kind, "param": param, "code": status}
    return JSONResponse({"error": error}, status)


async def _failed(_request: Request, failure: Exception) -> Response:
    return _error(f"Call to collective_rpc method failed: Worker failed with '{failure}'", 500)
