"""An inference server that refuses every request costs no worker, and ever fewer requests."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rollouts.fleet.engine.building import build
from rollouts.fleet.groups import task_loop
from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.outcomes import outcome_of
from rollouts.fleet.groups.task_loop import TaskLoop
from tests.stand_ins.inference_servers import listening
from tests.stand_ins.vllm_server import VllmStandIn
from tests.unit.rollouts.fleet.groups.language_platform import language_fleet, language_run
from tests.waiting import eventually

SENTENCE = "the model is gone"
REVERSE = {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}}


class RefusingGpu(VllmStandIn):
    """Stand-in for vLLM on a GPU, which refuses every prompt."""

    device = "cuda"

    def app(self) -> Starlette:
        """Return the application, with another route for prompts."""
        inner = super().app()
        inner.routes[:] = [
            Route("/inference/v1/generate", refuse, methods=["POST"])
            if isinstance(route, Route) and route.path == "/inference/v1/generate"
            else route
            for route in inner.routes
        ]
        return inner


async def refuse(_request: Request) -> Response:
    body = {"error": {"message": SENTENCE, "type": "BadRequestError", "code": 400}}
    return JSONResponse(body, 400)


def test_refused_tasks_are_reported_with_the_error_and_cost_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_loop, "FAILED_PAUSE_SECONDS", 0.01)
    config = language_run({"reverse": REVERSE}, inference="big")
    assert config.language is not None
    built = build(config.language)
    stand_in = RefusingGpu(tmp_path, built.model, built.tokenizer)
    with listening(stand_in.app()) as url:
        offered = {"kind": "vllm", "url": url, "model": "small", "weights_directory": str(tmp_path)}
        monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", json.dumps({"big": offered}))
        with language_fleet(config, tmp_path) as platform:
            platform.publish_weights(0)
            eventually(lambda: len(platform.outcomes) >= 14, 60.0)
            report = platform.reports[-1]
            # The problems that a worker holds are those of the tasks in progress.
            eventually(lambda: _unreported(platform) <= 2 * 3, 30.0)
    stand_in.close()

    assert report.workers[0].restarts == 0
    assert not {"loop_crashed", "worker_failed"} & set(platform.events())
    lost = [outcome for _, outcome in platform.outcomes if outcome.lost_problems]
    assert {kind for one in lost for kind in one.lost_problems} == {"inference_failed"}
    errors = [one.errors["inference_failed"] for one in lost if one.errors]
    assert errors
    assert all(SENTENCE in error for error in errors)
    assert not any(outcome.error for _, outcome in platform.outcomes)


def _unreported(platform: Any) -> int:
    """Return the assigned problems of which no outcome is known."""
    held: dict[str, list[int]] = platform.requests[-1].held or {}
    return sum(map(len, held.values()))


def test_a_loop_pauses_longer_after_each_failure() -> None:
    waits: list[float] = []
    closing = SimpleNamespace(wait=waits.append)
    loop = TaskLoop(SimpleNamespace(closing=closing), index=0)  # type: ignore[arg-type]

    for _ in range(6):
        loop.pause()

    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_outcomes_of_a_problem_that_is_assigned_again_have_other_keys() -> None:
    """The platform counts an outcome once by its key."""

    def key() -> str:
        return outcome_of(
            None,
            lesson="reverse",
            mode="train",
            worker_id="w0@1",
            policy_version=(1, 0),
            draw=Draw(7, 32),
            generations=4,
        ).key

    assert key() != key()
