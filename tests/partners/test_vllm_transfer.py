"""vLLM receives weights over HTTP, by our backend of its weight transfer."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import httpx
import pytest
from msgspec.structs import replace

from rollouts.fleet.engine.checkpoints import named_tensors, save
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from rollouts.fleet.inference.http_client import HttpInferenceServer
from rollouts.fleet.inference.transfers import ABANDONED_SECONDS
from tests.contract.inference_contract import (
    FIRST,
    RUN,
    TOKENIZER,
    Place,
    agrees,
    connected,
    generate_answers,
    model,
    prompt,
)
from tests.contract.replica_contract import Fleet, ReplicaContract
from tests.contract.shared_inference_contract import SharedServerContract
from tests.partners.vllm_server import (
    OPTIONS,
    TRANSFER_OPTIONS,
    VllmServer,
    all_running,
    generate_through_a_restart,
    write_tokenizer,
)
from tests.stand_ins.router import routed

pytestmark = pytest.mark.partner


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[VllmServer]]:
    """Two servers on the same checkpoint, which is never written."""
    folder = tmp_path_factory.mktemp("vllm")
    save(model(0), folder)
    write_tokenizer(TOKENIZER, folder)
    options = (*OPTIONS, "--enable-scale-out", *TRANSFER_OPTIONS)
    with all_running([VllmServer(folder, *options) for _ in range(2)]) as running:
        yield running


@pytest.fixture
def engine(servers: Sequence[VllmServer]) -> VllmServer:
    servers[0].reload()
    return servers[0]


@pytest.fixture
def client(engine: VllmServer) -> Iterator[InferenceServer]:
    client = HttpInferenceServer(engine.settings, run=RUN)
    yield client
    client.close()


@pytest.fixture
def place(engine: VllmServer) -> Iterator[Place]:
    with ExitStack() as parts:
        yield Place(
            connect=connected(parts, engine.settings),
            folder=engine.folder,
            recomputes_cache=True,
            filters_logprobs=True,
        )


class TestVllmTransfer(SharedServerContract):
    """One server, without a shared folder."""


@pytest.fixture
def fleet(servers: Sequence[VllmServer]) -> Iterator[Fleet]:
    for server in servers:
        server.reload()

    def start() -> None:
        servers[1].start()
        servers[1].wait()

    urls = [server.url for server in servers]
    with ExitStack() as parts:
        router = parts.enter_context(routed(urls))
        yield Fleet(
            settings=replace(servers[0].settings, url=router.url, control=urls),
            router=router,
            parts=parts,
            stop=servers[1].kill,
            start=start,
            recomputes_cache=True,
        )


class TestVllmTransferReplicas(ReplicaContract):
    """Two servers behind one name."""


def test_a_server_that_was_killed_receives_the_weights_again(
    engine: VllmServer, client: InferenceServer
) -> None:
    client.update_weights(dict(named_tensors(model(1))), FIRST)
    requests = [prompt(token, answers=8, max_tokens=200) for token in range(16)]

    found = generate_through_a_restart(engine, client, requests)

    assert len(found) == len(requests)
    for request, answers in zip(requests, found, strict=True):
        for answer in answers:
            assert set(answer.versions) == {FIRST}
            assert agrees(model(1), request, answer)


def test_an_update_that_its_worker_left_unfinished_is_finished_by_another(
    engine: VllmServer, client: InferenceServer
) -> None:
    engine.post("/start_weight_update")
    engine.post("/pause?mode=keep")
    began = time.monotonic()

    client.update_weights(dict(named_tensors(model(1))), FIRST)

    assert time.monotonic() - began > ABANDONED_SECONDS
    [answers] = generate_answers(client, prompt(1, 2))
    assert {version for answer in answers for version in answer.versions} == {FIRST}
    assert all(agrees(model(1), prompt(1, 2), answer) for answer in answers)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"size": 3, "sha256": "0" * 64}, "bytes received, expected 3"),
        ({"sha256": "1" * 64}, "the SHA-256 of the file differs"),
        ({"url": "http://127.0.0.1:9/", "size": 3, "sha256": "2" * 64}, "Connection refused"),
    ],
)
def test_a_file_that_cannot_be_downloaded_is_refused_and_the_weights_stay(
    engine: VllmServer, client: InferenceServer, source: dict[str, object], problem: str
) -> None:
    health = f"{engine.url}/version"
    size = len(httpx.get(health).content)
    body = {"url": health, "size": size} | source
    engine.post("/init_weight_transfer_engine", {"init_info": body})
    engine.post("/start_weight_update")

    answer = httpx.post(
        f"{engine.url}/update_weights",
        json={"update_info": {"sha256": body["sha256"]}},
        headers={"Connection": "close"},
        timeout=60,
    )

    assert answer.status_code == 500
    assert problem in answer.text
    [answers] = generate_answers(client, prompt(1))
    assert all(agrees(model(0), prompt(1), answer) for answer in answers)


def test_tied_embeddings_are_refused_on_a_cpu(client: InferenceServer) -> None:
    tied = dict(named_tensors(model(1)))
    del tied["lm_head.weight"]

    with pytest.raises(ValueError, match=r"lm_head\.weight is missing"):
        client.update_weights(tied, FIRST)

    assert generate_answers(client, prompt(1))


def update_and_generate(client: InferenceServer) -> None:
    client.update_weights(dict(named_tensors(model(1))), FIRST)
    generate_answers(client, prompt(1))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--enable-scale-out",), r"Weight transfer not configured.* and start vLLM with --weight"),
        (
            ("--enable-scale-out", "--weight-transfer-config", '{"backend": "nccl"}'),
            r"Invalid init_info for NCCL.* and start vLLM with --weight-transfer-config",
        ),
        (TRANSFER_OPTIONS, "weight_transfer requires vLLM with --enable-scale-out"),
    ],
    ids=["no backend", "another backend", "no labels"],
)
def test_a_server_with_other_options_is_refused_and_runs_on(
    tmp_path_factory: pytest.TempPathFactory, options: tuple[str, ...], problem: str
) -> None:
    folder = tmp_path_factory.mktemp("vllm")
    save(model(0), folder)
    write_tokenizer(TOKENIZER, folder)
    server = VllmServer(folder, *OPTIONS, *options)
    settings = replace(server.settings, weights_directory="", weight_transfer=True)
    client = HttpInferenceServer(settings, run=RUN)
    try:
        server.start()
        server.wait()
        with pytest.raises(InferenceFailed, match=problem):
            update_and_generate(client)

        server.wait()  # it still answers a request
    finally:
        client.close()
        server.kill()
