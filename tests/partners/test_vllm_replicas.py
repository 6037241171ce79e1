"""Two vLLM servers behind one name: labels are right while weights roll over them.

The model has several files.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest
from msgspec.structs import replace

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.inference.shared_folder import MARKER
from tests.contract.inference_contract import TOKENIZER, model
from tests.contract.replica_contract import Fleet, ReplicaContract
from tests.contract.sharding import shard
from tests.partners.vllm_server import OPTIONS, VllmServer, all_running, write_tokenizer
from tests.stand_ins.router import Router, routed

pytestmark = pytest.mark.partner


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[VllmServer]]:
    """Two servers that read their weights from the same folder."""
    folder = tmp_path_factory.mktemp("vllm")
    checkpoints.save(model(0), folder)
    shard(folder)
    write_tokenizer(TOKENIZER, folder)
    options = (*OPTIONS, "--enable-scale-out")
    with all_running([VllmServer(folder, *options) for _ in range(2)]) as running:
        yield running


@pytest.fixture
def router(servers: Sequence[VllmServer]) -> Iterator[Router]:
    with routed([server.url for server in servers]) as router:
        yield router


@pytest.fixture
def fleet(servers: Sequence[VllmServer], router: Router) -> Iterator[Fleet]:
    folder = servers[0].folder
    (folder / MARKER).unlink(missing_ok=True)
    checkpoints.save(model(0), folder)
    shard(folder)
    for server in servers:
        server.reload()

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
            recomputes_cache=True,
        )


class TestVllmReplicas(ReplicaContract):
    """Two servers with ``--enable-scale-out``."""
