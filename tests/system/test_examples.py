"""The examples learn on data of real fleets, through the whole platform.

test_learning.py measures their final results in lockstep; here they only need to improve by more
than chance explains.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server import Server, running_server, wait_until

LEARNS_WITHIN_SECONDS = 600.0
"""About 90 s each on two cores, with a margin for a loaded machine."""

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("examples")) as server:
        yield server


def windows(server: Server, run: str) -> list[dict[str, Any]]:
    """Return the newest episode windows, oldest first."""
    rows: list[dict[str, Any]] = server.get(f"/api/v1/runs/{run}/episodes?limit=2000")["results"]
    return rows[::-1]


@pytest.mark.parametrize(
    ("preset", "example", "begins_below", "mark"),
    [
        # An idle policy gets about -1,200 per episode; the mean of 20 varies by 80.
        pytest.param("pendulum", "ppo_continuous", -900.0, -700.0, id="pendulum"),
        # Guessing is right for one of four cues; the mean of 20 varies by 0.1.
        pytest.param("recall", "ppo_recurrent", 0.6, 0.75, id="recall"),
    ],
)
def test_an_example_learns_from_the_fragments_of_a_fleet(
    server: Server, preset: str, example: str, begins_below: float, mark: float
) -> None:
    server.post("/api/v1/runs", {"name": preset, "preset": preset, "start": True})
    trainer = server.start_trainer(preset, example=example)

    def has_learned() -> bool:
        assert trainer.poll() is None, (server.var / "trainer.log").read_text()[-2000:]
        recent = server.get(f"/api/v1/runs/{preset}/episodes?limit=1")["results"]
        return bool(recent) and (recent[-1]["recent_return_mean"] or -1e9) >= mark

    try:
        wait_until(
            has_learned,
            seconds=LEARNS_WITHIN_SECONDS,
            what=f"a mean return of {mark}",
        )
        seen = windows(server, preset)
        first = next(row for row in seen if row["count"] and row["mode"] == "train")
        run = server.get(f"/api/v1/runs/{preset}")
        fleet = server.get(f"/api/v1/runs/{preset}/fleet")
        ledger = server.get(f"/api/v1/runs/{preset}/ledger")["fragments"]
        server.post(f"/api/v1/runs/{preset}/kill", {"reason": "it has learned"})
    finally:
        trainer.terminate()
        trainer.wait(20)

    assert first["return_mean"] < begins_below
    # Several versions, each used by every worker of the fleet.
    assert run["policy_step"] >= 5
    assert len(fleet["workers"]) == 2
    assert all(worker["active_step"] >= 1 for worker in fleet["workers"])
    assert ledger["balanced"]
    assert ledger["served"] > 0


# 16 slots: a batch has a chunk of 8 fragments of each.
CHUNKS = {
    "fleet": {"fragment_length": 4},
    "buffer": {"batch_size": 128, "replay": {"fragments_per_chunk": 8}},
}


@pytest.mark.parametrize(
    ("name", "preset", "config", "example"),
    [
        ("chunks", "recall", CHUNKS, "examples.impala_chunks"),
        ("popart", "cartpole", {}, "examples.ppo_popart"),
    ],
)
def test_an_example_trains_on_fragments_of_a_fleet(
    server: Server, name: str, preset: str, config: dict[str, Any], example: str
) -> None:
    run = server.free_name(name)
    server.post("/api/v1/runs", {"name": run, "preset": preset, "config": config, "start": True})
    trainer = server.start_trainer(run, example=example)

    def version() -> int:
        assert trainer.poll() is None, server.trainer_log()
        return int(server.get(f"/api/v1/runs/{run}")["policy_step"])

    try:
        wait_until(lambda: version() >= 5, seconds=LEARNS_WITHIN_SECONDS, what="five train steps")
        ledger = server.get(f"/api/v1/runs/{run}/ledger")["fragments"]
        server.post(f"/api/v1/runs/{run}/kill", {"reason": "it has trained"})
    finally:
        trainer.terminate()
        trainer.wait(20)

    assert ledger["balanced"]
    assert ledger["served"] > 0
