"""Every inference server fulfils the contract of the interface: ours, in and out of process, too.

vLLM and SGLang are replaced by stand-ins with their HTTP API. tests/partners runs the same contract
with vLLM itself.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.weights import BOOTSTRAP, WeightsApi, WeightsSwap
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.inference.contract import InferenceServer
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.inference_contract import (
    CONTEXT,
    RUN,
    TOKENIZER,
    InferenceServerContract,
    Place,
    connected,
    model,
)
from tests.contract.shared_inference_contract import FolderServerContract, SharedServerContract
from tests.stand_ins.inference_servers import SglangStandIn, StandIn, listening
from tests.stand_ins.vllm_server import PlainVllmStandIn, VllmStandIn
from tests.stand_ins.vllm_transfer import TransferVllmStandIn

Start = Callable[[Path, ExitStack], Place]


def in_process(tmp_path: Path, parts: ExitStack) -> Place:
    def connect(run: str = RUN) -> InferenceServer:
        server = TorchInferenceServer(model(0), rows=8, tokenizer=TOKENIZER)
        parts.callback(server.close)
        return server

    return Place(connect=connect)


def ours_over_http(tmp_path: Path, parts: ExitStack) -> Place:
    engine = Engine(model(0), rows=8, version=BOOTSTRAP, tokenizer=TOKENIZER)
    thread = EngineThread(engine, context=CONTEXT)
    parts.callback(thread.close)
    api = OpenAiApi(thread, tokenizer=TOKENIZER, model="small", context=CONTEXT)
    api.app.routes.extend(WeightsApi(thread, WeightsSwap(thread, model(0).config)).routes)
    url = parts.enter_context(listening(api.app))
    return Place(connect=connected(parts, InferenceServerSettings(kind="rolldeck", url=url)))


def beside(
    kind: str, stand_in: type[StandIn], *, transfers: bool = False, **properties: Any
) -> Start:
    def start(tmp_path: Path, parts: ExitStack) -> Place:
        server = stand_in(tmp_path, model(0), TOKENIZER)
        parts.callback(server.close)
        url = parts.enter_context(listening(server.app()))
        settings = InferenceServerSettings(
            kind=kind,  # type: ignore[arg-type]
            url=url,
            model="small",
            weights_directory="" if transfers else str(tmp_path),
            weight_transfer=transfers,
        )
        connect = connected(parts, settings)
        return Place(connect=connect, folder=tmp_path, calls=server.calls, **properties)

    return start


STAND_INS = {
    "vLLM": beside("vllm", VllmStandIn, filters_logprobs=True),
    "vLLM completions": beside(
        "vllm", PlainVllmStandIn, filters_logprobs=True, labels_exactly=False, max_stops=4
    ),
    "SGLang": beside("sglang", SglangStandIn, labels_exactly=False),
}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as parts:
        yield request.param(tmp_path, parts)


@pytest.mark.parametrize("place", [in_process], ids=["in process"], indirect=True)
class TestInProcess(InferenceServerContract):
    """The engine in the worker's process."""


@pytest.mark.parametrize("place", [ours_over_http], ids=["rolldeck inference"], indirect=True)
class TestRolldeckServe(SharedServerContract):
    """`rolldeck inference`."""


@pytest.mark.parametrize("place", STAND_INS.values(), ids=STAND_INS.keys(), indirect=True)
class TestStandIns(FolderServerContract):
    """Stand-ins for vLLM and SGLang."""


TRANSFER = beside("vllm", TransferVllmStandIn, transfers=True, filters_logprobs=True)


@pytest.mark.parametrize("place", [TRANSFER], ids=["vLLM transfer"], indirect=True)
class TestVllmTransferStandIn(SharedServerContract):
    """Stand-in for vLLM with our backend of its weight transfer."""
