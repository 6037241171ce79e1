"""An inference server that refuses everything pauses the run; it resumes when the server answers.

The server is a stand-in for vLLM; fleet, platform and jobs are real.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from rolldeck.trainer import Trainer
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.building import build
from runs.config.rules import run_config
from tests.server import ADMIN_TOKEN, Server, running_server, wait_until
from tests.stand_ins.inference_servers import listening
from tests.stand_ins.vllm_server import VllmStandIn

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("waits for minutes of an outage"),
]
SENTENCE = "the model `small` was unloaded by an administrator"
MOST_PER_MINUTE = 30
CONFIG: dict[str, Any] = {
    "language": {
        "lessons": {"reverse": {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}}},
        "model": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 48,
            "max_position_embeddings": 64,
        },
        "group_size": 4,
        "prompts_per_batch": 16,
        "keeps_zero_variance": True,
        "inference": "engine",
        "evaluation": {"examples": 64, "every_train_steps": 1_000_000},
    },
    "fleet": {"num_workers": 2},
    "buffer": {"max_staleness": 100, "batch_size": 64},
}


class OnGpu(VllmStandIn):
    """Stand-in for vLLM on a GPU, which accepts models with tied embeddings."""

    device = "cuda"


class Refusing:
    """Application that answers requests for answers with status 400 while `is_refusing`."""

    def __init__(self, inner: Starlette) -> None:
        self._inner: ASGIApp = inner
        self.is_refusing = False
        self.times: list[float] = []
        """Times of the refused requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        generates = scope["type"] == "http" and "generate" in scope["path"]
        if not generates or not self.is_refusing:
            await self._inner(scope, receive, send)
            return
        self.times.append(time.monotonic())
        body = {"error": {"message": SENTENCE, "type": "BadRequestError", "code": 400}}
        await JSONResponse(body, 400)(scope, receive, send)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[Refusing, str]]:
    language = run_config.parse(CONFIG).language
    assert language is not None
    built = build(language)
    stand_in = OnGpu(tmp_path / "engine", built.model, built.tokenizer)
    refusing = Refusing(stand_in.app())
    with listening(refusing) as url:  # type: ignore[arg-type]
        yield refusing, url
    stand_in.close()


@pytest.fixture
def server(tmp_path: Path, engine: tuple[Refusing, str]) -> Iterator[Server]:
    offered = {
        "kind": "vllm",
        "url": engine[1],
        "model": "small",
        "weights_directory": str(tmp_path / "engine"),
    }
    servers = json.dumps({"engine": offered})
    with running_server(tmp_path / "var", ROLLDECK_INFERENCE_SERVERS=servers) as server:
        wait_until(lambda: "Ready on" in server.log(), seconds=300, what="every part is ready")
        yield server


def test_a_server_that_refuses_everything_pauses_the_run_until_it_answers(
    server: Server, engine: tuple[Refusing, str]
) -> None:
    refusing, name = engine[0], server.free_name("outage")
    server.post("/api/v1/runs", {"name": name, "config": CONFIG, "start": True})
    language = run_config.parse(CONFIG).language
    assert language is not None
    weights = dict(checkpoints.named_tensors(build(language).model))

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = server.get(f"/api/v1/runs/{name}")
        return found

    with Trainer(server.url, name, ADMIN_TOKEN) as trainer:
        trainer.register()
        trainer.publish_weights(weights, step=0)
        assert trainer.next_batch(wait_seconds=300) is not None

        refusing.is_refusing = True
        began = time.monotonic()
        # The queue is full at first, so that workers ask again only after batches are taken.
        while shown()["status"] != "paused":
            assert time.monotonic() < began + 120, shown()
            if (batch := trainer.next_batch(wait_seconds=1)) is not None:
                trainer.ack(batch)
        assert SENTENCE in shown()["status_reason"]
        assert refusing.times, "the run was paused without a request"

        after = refusing.times[0] + 60
        wait_until(lambda: time.monotonic() > after + 60, seconds=150, what="a second minute")
        late = [at for at in refusing.times if after < at < after + 60]
        assert len(late) <= MOST_PER_MINUTE, len(late)
        assert shown()["status"] == "paused"
        assert refusing.times[-1] > refusing.times[0] + 20, "no probe was sent"

        refusing.is_refusing = False
        wait_until(
            lambda: shown()["status"] == "running", seconds=310, what="a probe resumes the run"
        )
        assert trainer.next_batch(wait_seconds=120) is not None

    events = server.get(f"/api/v1/runs/{name}/events?limit=200")["results"]
    kinds = [event["kind"] for event in events]
    assert "outage_ended" in kinds
    assert not {"worker_failed", "fleet_failed"} & set(kinds)
    reasons = [event["reason"] for event in events if event["actor"] == "failure budget"]
    assert any(SENTENCE in reason for reason in reasons)
