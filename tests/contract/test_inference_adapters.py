"""Adapters are loaded by version; tests/partners runs the same contract with vLLM itself."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rollouts.fleet.inference.contract import InferenceFailed
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.adapter_contract import AdapterContract, AdapterPlace, adapter_of
from tests.contract.inference_contract import FIRST, TOKENIZER, model
from tests.stand_ins.inference_servers import SglangStandIn, StandIn, listening
from tests.stand_ins.vllm_server import PlainVllmStandIn, VllmStandIn


class FixedVllmStandIn(VllmStandIn):
    """Stand-in for vLLM without ``VLLM_ALLOW_RUNTIME_LORA_UPDATING``."""

    loads_adapters = False


KINDS: dict[str, tuple[str, type[StandIn]]] = {
    "vLLM": ("vllm", VllmStandIn),
    "vLLM completions": ("vllm", PlainVllmStandIn),
    "SGLang": ("sglang", SglangStandIn),
    "without adapters": ("vllm", FixedVllmStandIn),
}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AdapterPlace]:
    kind, stand_in = KINDS[request.param]
    with ExitStack() as parts:
        server = stand_in(tmp_path, model(0), TOKENIZER)
        parts.callback(server.close)
        settings = InferenceServerSettings(
            kind=kind,  # type: ignore[arg-type]
            url=parts.enter_context(listening(server.app())),
            model="small",
            weights_directory=str(tmp_path),
        )
        yield AdapterPlace(settings=settings, parts=parts)


@pytest.mark.parametrize("place", ["vLLM", "vLLM completions", "SGLang"], indirect=True)
class TestStandIns(AdapterContract):
    """Stand-ins for vLLM and SGLang."""


@pytest.mark.parametrize("place", ["without adapters"], indirect=True)
def test_a_server_that_loads_no_adapters_is_named_with_the_missing_option(
    place: AdapterPlace,
) -> None:
    server = place.connect()

    with pytest.raises(InferenceFailed, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=1") as refusal:
        server.update_weights(adapter_of(1), FIRST)
    assert place.settings.url in str(refusal.value)
    assert server.version < FIRST
