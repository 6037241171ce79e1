"""vLLM itself fulfils the contract to which tests/contract holds its stand-ins."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from safetensors.torch import save_file

from rollouts.fleet.engine.checkpoints import named_tensors, save
from rollouts.fleet.engine.tokenizers import save_tokenizer
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.dialects import CompletionsDialect, Dialect, Expected, VllmDialect
from rollouts.fleet.inference.http_client import HttpInferenceServer
from rollouts.fleet.inference.shared_folder import ASLEEP, WEIGHTS
from tests.contract.adapter_contract import ADAPTER, adapter_of
from tests.contract.inference_contract import (
    FIRST,
    RUN,
    SECOND,
    TOKENIZER,
    Place,
    agrees,
    connected,
    generate_answers,
    model,
    prompt,
)
from tests.contract.shared_inference_contract import FolderServerContract
from tests.contract.sleep_contract import SleepContract, Sleeper
from tests.partners.vllm_server import (
    VllmServer,
    generate_through_a_restart,
    small_server,
    write_tokenizer,
)
from tests.unit.rollouts.fleet.engine.small_models import small_model

pytestmark = pytest.mark.partner


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, VllmServer]]:
    """Two servers for the module: with and without the route that labels tokens."""
    options = {"vLLM": ("--enable-scale-out",), "vLLM completions": ()}
    with ExitStack() as parts:
        running = {}
        for name, extra in options.items():
            server = small_server(tmp_path_factory.mktemp("vllm"), *extra)
            write_tokenizer(TOKENIZER, server.folder)
            parts.callback(server.kill)
            server.start()
            running[name] = server
        for server in running.values():
            server.wait()
        yield running


@pytest.fixture
def place(request: pytest.FixtureRequest, servers: dict[str, VllmServer]) -> Iterator[Place]:
    server = servers[request.param]
    server.reset()
    with ExitStack() as parts:
        yield Place(
            connect=connected(parts, server.settings),
            folder=server.folder,
            labels_exactly=request.param == "vLLM",
            recomputes_cache=True,
            filters_logprobs=True,
            max_stops=16 if request.param == "vLLM" else 4,
        )


@pytest.mark.parametrize("place", ["vLLM", "vLLM completions"], indirect=True)
class TestVllm(FolderServerContract):
    """A vLLM server, with and without ``--enable-scale-out``."""

    def test_its_logprobs_are_those_after_top_k(
        self, place: Place, servers: dict[str, VllmServer]
    ) -> None:
        server = next(one for one in servers.values() if one.folder == place.folder)
        evaluating = HttpInferenceServer(server.settings, is_fixed=True)
        filtered = prompt(1, 2, top_k=2)

        [answers] = generate_answers(evaluating, filtered)

        evaluating.close()
        assert not any(agrees(model(0), filtered, answer) for answer in answers)


@pytest.fixture
def sleeper(servers: dict[str, VllmServer]) -> Iterator[Sleeper]:
    server = servers["vLLM"]
    server.reset()

    def is_asleep() -> bool:
        answer = httpx.get(f"{server.url}/is_sleeping", timeout=60).json()
        return bool(answer["is_sleeping"])

    with ExitStack() as parts:
        yield Sleeper(settings=server.settings, parts=parts, is_asleep=is_asleep)
    (server.folder / ASLEEP).unlink(missing_ok=True)
    server.post("/wake_up")


class TestVllmSleep(SleepContract):
    """On a CPU vLLM stops its scheduler, and keeps the memory."""


@pytest.fixture(scope="module")
def tokenless_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A server whose folder has only our tokenizer, which vLLM cannot read."""
    folder = tmp_path_factory.mktemp("vllm")
    server = small_server(folder, "--enable-scale-out", "--skip-tokenizer-init")
    save_tokenizer(TOKENIZER, folder)
    yield server
    server.kill()


@pytest.fixture
def tokenless(tokenless_server: VllmServer) -> VllmServer:
    if not tokenless_server.is_running:
        save(model(0), tokenless_server.folder)
        tokenless_server.start()
        tokenless_server.wait()
    tokenless_server.reset()
    return tokenless_server


@pytest.mark.parametrize("dialect", [VllmDialect(), CompletionsDialect()])
def test_a_folder_with_our_tokenizer_is_served(tokenless: VllmServer, dialect: Dialect) -> None:
    request = prompt(1, 2, 3, answers=3)
    body = dialect.body(request, model="small")

    response = httpx.post(f"{tokenless.url}{dialect.path}", json=body, timeout=60)

    answers = dialect.answers(response.content, Expected(version=FIRST, run=RUN))
    assert [len(answer.tokens) for answer in answers] == [12, 12, 12]
    assert all(agrees(model(0), request, answer) for answer in answers)


def test_adapters_require_an_option_of_the_server(servers: dict[str, VllmServer]) -> None:
    server = servers["vLLM"]
    server.reset()
    client = HttpInferenceServer(server.settings, run=RUN, adapter=ADAPTER)

    with pytest.raises(
        InferenceFailed, match=r"LoRA is not enabled.* and --enable-lora"
    ) as refusal:
        client.update_weights(adapter_of(1), FIRST)

    client.close()
    assert server.url in str(refusal.value)
    assert server.is_healthy


def test_tied_embeddings_are_refused_on_a_cpu(tokenless: VllmServer) -> None:
    tied = dict(named_tensors(model(1)))
    del tied["lm_head.weight"]
    save_file(tied, tokenless.folder / WEIGHTS)
    server = HttpInferenceServer(tokenless.settings, run=RUN)

    with pytest.raises(InferenceFailed, match=r"tied embeddings, without lm_head\.weight"):
        server.update_weights(tied, FIRST)

    server.close()


def test_a_run_continues_after_its_server_was_killed(tokenless: VllmServer) -> None:
    server = HttpInferenceServer(tokenless.settings, run=RUN)
    server.update_weights(dict(named_tensors(model(1))), FIRST)
    requests = [prompt(token, answers=8, max_tokens=200) for token in range(16)]

    found = generate_through_a_restart(tokenless, server, requests)

    for request, answers in zip(requests, found, strict=True):
        for answer in answers:
            assert set(answer.versions) == {FIRST}
            assert agrees(model(1), request, answer)
    server.update_weights(dict(named_tensors(model(2))), SECOND)
    [after] = generate_answers(server, prompt(1))
    server.close()
    assert {version for answer in after for version in answer.versions} == {SECOND}
    assert all(agrees(model(2), prompt(1), answer) for answer in after)


def test_a_failed_update_reports_its_first_error(tokenless: VllmServer, tmp_path: Path) -> None:
    other = small_model(
        seed=1, vocab_size=TOKENIZER.vocab_size, hidden_size=32, tie_word_embeddings=False
    )
    # The folder no longer contains the model with which the server was started.
    save(other, tmp_path)
    (tmp_path / WEIGHTS).replace(tokenless.folder / WEIGHTS)
    server = HttpInferenceServer(tokenless.settings, run=RUN)

    with pytest.raises(
        InferenceFailed, match=r"POST /collective_rpc: 500 .*Worker failed"
    ) as failure:
        server.update_weights(dict(named_tensors(other)), FIRST)

    assert "reset_prefix_cache" not in str(failure.value)
    assert "not resumed" not in str(failure.value)
    assert server.version < FIRST
    with pytest.raises(InferenceFailed, match=r"500 .*EngineCore"):
        generate_answers(server, prompt(1))
    server.close()
    tokenless.kill()
