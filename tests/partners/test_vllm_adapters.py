"""vLLM itself loads LoRA adapters by version, as its stand-in does in tests/contract."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import httpx
import pytest
from msgspec.structs import replace

from rollouts.fleet.engine import checkpoints
from tests.contract.adapter_contract import AdapterContract, AdapterPlace
from tests.contract.adapter_replica_contract import AdapterReplicaContract
from tests.contract.inference_contract import TOKENIZER, model
from tests.contract.replica_contract import Fleet
from tests.partners.vllm_server import (
    ADAPTER_OPTIONS,
    OPTIONS,
    VllmServer,
    all_running,
    write_tokenizer,
)
from tests.stand_ins.router import Router, routed

pytestmark = pytest.mark.partner


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[VllmServer]]:
    """Two servers of the same folder: with and without the route that labels tokens."""
    folder = tmp_path_factory.mktemp("vllm")
    checkpoints.save(model(0), folder)
    write_tokenizer(TOKENIZER, folder)
    labelling = VllmServer(folder, *OPTIONS, *ADAPTER_OPTIONS, "--enable-scale-out")
    with all_running([labelling, VllmServer(folder, *OPTIONS, *ADAPTER_OPTIONS)]) as running:
        yield running


def unload_all(servers: Sequence[VllmServer]) -> None:
    """Unload all adapters, as at the start of a server."""
    for server in servers:
        listed = httpx.get(f"{server.url}/v1/models", timeout=60).json()["data"]
        for name in [one["id"] for one in listed if one.get("parent")]:
            server.post("/v1/unload_lora_adapter", {"lora_name": name})


@pytest.fixture
def place(request: pytest.FixtureRequest, servers: Sequence[VllmServer]) -> Iterator[AdapterPlace]:
    unload_all(servers)
    with ExitStack() as parts:
        yield AdapterPlace(settings=servers[request.param].settings, parts=parts)


@pytest.mark.parametrize("place", [0, 1], ids=["vLLM", "vLLM completions"], indirect=True)
class TestVllm(AdapterContract):
    """A vLLM server, with and without ``--enable-scale-out``."""


@pytest.fixture
def router(servers: Sequence[VllmServer]) -> Iterator[Router]:
    with routed([server.url for server in servers]) as router:
        yield router


@pytest.fixture
def fleet(servers: Sequence[VllmServer], router: Router) -> Iterator[Fleet]:
    unload_all(servers)

    def start() -> None:
        servers[1].start()
        servers[1].wait()

    with ExitStack() as parts:
        yield Fleet(
            settings=replace(
                servers[0].settings, url=router.url, control=[server.url for server in servers]
            ),
            router=router,
            parts=parts,
            stop=servers[1].kill,
            start=start,
        )


class TestVllmReplicas(AdapterReplicaContract):
    """Two servers behind one name."""
