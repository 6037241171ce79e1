"""Servers sleep while no worker needs them; tests/partners runs the contract with vLLM itself."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.inference.contract import InferenceFailed
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.inference_contract import FIRST, TOKENIZER, model
from tests.contract.sleep_contract import SleepContract, Sleeper
from tests.stand_ins.inference_servers import SglangStandIn, StandIn, listening
from tests.stand_ins.vllm_server import VllmStandIn

KINDS: dict[str, type[StandIn]] = {"vllm": VllmStandIn, "sglang": SglangStandIn}


@pytest.fixture
def sleeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sleeper]:
    with ExitStack() as parts:
        stand_in = KINDS[request.param](tmp_path, model(0), TOKENIZER)
        parts.callback(stand_in.close)
        settings = InferenceServerSettings(
            kind=request.param,
            url=parts.enter_context(listening(stand_in.app())),
            model="small",
            weights_directory=str(tmp_path),
        )
        yield Sleeper(settings=settings, parts=parts, is_asleep=lambda: stand_in.is_asleep)


@pytest.mark.parametrize("sleeper", ["vllm", "sglang"], indirect=True)
class TestStandIns(SleepContract):
    """Stand-ins for vLLM and SGLang."""


def test_a_server_without_the_route_is_named(tmp_path: Path) -> None:
    with ExitStack() as parts:
        stand_in = VllmStandIn(tmp_path, model(0), TOKENIZER)
        parts.callback(stand_in.close)
        app = stand_in.app()
        app.router.routes = [
            route for route in app.routes if getattr(route, "path", "") != "/sleep"
        ]
        url = parts.enter_context(listening(app))
        settings = InferenceServerSettings(
            kind="vllm", url=url, model="small", weights_directory=str(tmp_path)
        )
        server = Sleeper(settings=settings, parts=parts, is_asleep=lambda: False).connect()
        server.update_weights(dict(named_tensors(model(1))), FIRST)

        with pytest.raises(InferenceFailed, match=rf"{url}: sleep: POST /sleep.*: 404"):
            server.rest()
