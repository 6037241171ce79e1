"""Two replicas behind one name fulfil the contract; tests/partners runs it with vLLM itself."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rollouts.fleet.engine import checkpoints
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.adapter_replica_contract import AdapterReplicaContract
from tests.contract.inference_contract import TOKENIZER, model
from tests.contract.replica_contract import Fleet, ReplicaContract
from tests.contract.sharding import shard
from tests.stand_ins.inference_servers import SglangStandIn, StandIn, listening
from tests.stand_ins.router import routed
from tests.stand_ins.vllm_server import VllmStandIn
from tests.stand_ins.vllm_transfer import TransferVllmStandIn

TRANSFER = "vllm transfer"
KINDS: dict[str, type[StandIn]] = {
    "vllm": VllmStandIn,
    TRANSFER: TransferVllmStandIn,
    "sglang": SglangStandIn,
}
PLACES = [("vllm", False), ("vllm", True), (TRANSFER, True), ("sglang", True)]
"""Kinds, and whether the model has several files."""


class Replica:
    """A stand-in that ends and starts again at the same address."""

    def __init__(self, kind: type[StandIn], folder: Path) -> None:
        checkpoints.save(model(0), folder)
        self._kind, self._folder, self._port = kind, folder, 0
        self._parts = ExitStack()

    def start(self) -> str:
        """Serve the weights in the folder, and return the URL."""
        stand_in = self._kind(self._folder, checkpoints.load(self._folder), TOKENIZER)
        self._parts.callback(stand_in.close)
        url = self._parts.enter_context(listening(stand_in.app(), port=self._port))
        self._port = int(url.rsplit(":", 1)[1])
        return url

    def stop(self) -> None:
        """End the server."""
        self._parts.close()


@pytest.fixture
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    kind, has_shards = request.param
    with ExitStack() as parts:
        replicas = [Replica(KINDS[kind], tmp_path) for _ in range(2)]
        urls = [replica.start() for replica in replicas]
        if has_shards:
            shard(tmp_path)
        for replica in replicas:
            parts.callback(replica.stop)
        router = parts.enter_context(routed(urls))
        settings = InferenceServerSettings(
            kind="sglang" if kind == "sglang" else "vllm",
            url=router.url,
            control=urls,
            model="small",
            weights_directory="" if kind == TRANSFER else str(tmp_path),
            weight_transfer=kind == TRANSFER,
        )
        yield Fleet(
            settings=settings,
            router=router,
            parts=parts,
            stop=replicas[1].stop,
            start=replicas[1].start,
            labels_exactly=kind != "sglang",
        )


@pytest.mark.parametrize("fleet", PLACES, ids=str, indirect=True)
class TestStandIns(ReplicaContract):
    """Stand-ins for vLLM and SGLang."""


@pytest.mark.parametrize("fleet", [("vllm", False), ("sglang", False)], ids=str, indirect=True)
class TestAdapters(AdapterReplicaContract):
    """Stand-ins for vLLM and SGLang with adapters."""
