"""A pass is one group of each row, whichever part is killed, and if the trainer resumes.

Long rows are not skipped: row i has i + 1 tokens, and answers of i + 1 turns.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rolldeck.trainer import Trainer
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.building import build
from runs.config.rules import run_config
from tests.server import ADMIN_TOKEN, Server, running_server, wait_until
from tests.system.growing_task import ROWS

pytestmark = [
    pytest.mark.system,
    pytest.mark.full("starts a server with Ray, and kills its parts"),
]
SPEC = "module:growing_task:Growing"
PASSES = 3
GROUP_SIZE = 4
BATCH_SIZE = 16
KILLS = {
    2: ("ray::WorkerActor",),
    6: ("ray::ManagerActor",),
    10: ("config.web",),
    14: ("ray::WorkerActor",),
    18: ("ray::WorkerActor",),
    22: ("gcs_server",),
}
"""Processes to kill after the acknowledgement of so many batches."""
RESUMES = (16, 12)
"""Number of batches after which the trainer resumes, and the version it resumes from."""
CONFIG: dict[str, Any] = {
    "language": {
        "lessons": {"growing": {"spec": SPEC, "sampling": {"max_tokens": 1}}},
        "model": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 48,
            "max_position_embeddings": 128,
            "tokenizer": "bytes",
        },
        "group_size": GROUP_SIZE,
        "prompts_per_batch": 4,
        "keeps_zero_variance": True,
        "max_rollouts": PASSES * ROWS * GROUP_SIZE,
        "evaluation": {"examples": 64, "every_train_steps": 1_000_000},
    },
    "fleet": {"num_workers": 2},
    "buffer": {"max_staleness": 4, "batch_size": BATCH_SIZE},
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", SPEC)
    paths = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
    with running_server(tmp_path, ROLLDECK_ENVIRONMENTS=SPEC, PYTHONPATH=paths) as server:
        wait_until(lambda: "Ready on" in server.log(), seconds=300, what="every part is ready")
        yield server


def kill(server: Server, words: tuple[str, ...]) -> None:
    """Kill all processes of a part, but one of several workers."""
    pids = server.children(*words)
    for pid in pids[:1] if "Worker" in words[0] else pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_the_policy_is_trained_once_on_each_row_of_each_pass(server: Server) -> None:
    name = server.free_name("passes")
    server.post("/api/v1/runs", {"name": name, "config": CONFIG, "start": True})
    language = run_config.parse(CONFIG).language
    assert language is not None
    weights = dict(checkpoints.named_tensors(build(language).model))
    trained: list[Counter[str]] = []  # rows of the batch that each version was trained on
    kills, resumes = dict(KILLS), [RESUMES]
    received = 0
    while len(trained) < PASSES * ROWS * GROUP_SIZE // BATCH_SIZE:
        with Trainer(server.url, name, ADMIN_TOKEN) as trainer:
            trainer.register()
            while len(trained) < PASSES * ROWS * GROUP_SIZE // BATCH_SIZE:
                trainer.publish_weights(weights, step=len(trained))
                batch = trainer.next_batch(wait_seconds=300)
                events = f"/api/v1/runs/{name}/events?limit=20"
                assert batch is not None, (received, server.get(events)["results"])
                trained.append(Counter(group["example"] for group in batch.groups))
                received += 1
                trainer.ack(batch)
                if received in kills:
                    kill(server, kills.pop(received))
                if resumes and received == resumes[0][0]:
                    # The trainer ends, and another one loads the checkpoint of an older version.
                    del trained[resumes.pop()[1] :]
                    break

    assert sum(trained, Counter()) == {f"train/{row}": PASSES for row in range(ROWS)}
    assert received > len(trained)
    wait_until(
        lambda: server.get(f"/api/v1/runs/{name}")["status"] == "completed",
        seconds=120,
        what="the run is completed",
    )
    passes = server.get(f"/api/v1/runs/{name}/lessons/growing/passes")["results"]
    assert [(one["size"], one["trained"], one["skipped"]) for one in passes] == [
        (ROWS, ROWS, {})
    ] * PASSES
    returned = [
        event
        for event in server.get(f"/api/v1/runs/{name}/events?limit=200")["results"]
        if event["kind"] == "problems_returned"
    ]
    assert returned, "no kill met a problem that was being sampled"
