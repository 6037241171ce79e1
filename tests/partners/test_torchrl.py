"""Torchrl's PPO on the fragments of a real fleet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.partners.programs import program
from tests.server import ADMIN_TOKEN, Server, running_server, wait_until
from tests.unit.client.batch_factories import make_batch_body, make_fragment, with_arrays

pytestmark = pytest.mark.partner
PROGRAM = "tests/partners/torchrl_program.py"
LEARNS_WITHIN_SECONDS = 600.0
MARK = 400.0
"""Mean return of 20 episodes; actions at random reach 22, and 500 is the limit."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server") / "var") as started:
        yield started


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """A batch of two fragments: one with two ended episodes and costs, one with padding."""
    ended = make_fragment(steps=8, ends={2: "terminated", 5: "truncated"})
    fragments = [with_arrays(ended, **{"info.cost": np.arange(8, dtype=np.float32)})]
    fragments.append(make_fragment(number=1, steps=8, real=5, ends={4: "terminated"}))
    path = tmp_path / "batch"
    path.write_bytes(make_batch_body(fragments))
    return path


def settings(server: Server, name: str, **more: Any) -> str:
    own = {"program": name, "url": server.url, "token": ADMIN_TOKEN}
    return json.dumps(own | more)


def test_advantages_of_torchrl_equal_those_of_the_client(
    server: Server, batch: Path, tmp_path: Path
) -> None:
    arguments = settings(server, "advantages", batch=str(batch))
    with program(server, tmp_path / "log", PROGRAM, arguments, partner="torchrl") as compared:
        compared.finish()

    [found] = compared.lines("difference")
    assert (found["shape"], found["real"]) == ([2, 8], 13)
    assert found["difference"] < 1e-5
    assert found["spread"] > 0.1
    assert found["kinds"] == {"action": "torch.int64", "action_log_prob": "torch.float32"}
    assert [np.flatnonzero(row).tolist() for row in found["starts"]] == [[3, 6], []]
    assert found["costs"] == [[0, 1, 2, 3, 4, 5, 6, 7], [-1] * 5 + [0] * 3]


def test_wrong_uses_are_refused_with_their_field(
    server: Server, batch: Path, tmp_path: Path
) -> None:
    run = server.new_run("torchrl")
    arguments = settings(server, "refusals", batch=str(batch), run=run)
    with program(server, tmp_path / "log", PROGRAM, arguments, partner="torchrl") as refused:
        refused.finish()

    found = {line["use"]: line["error"] for line in refused.lines("use")}
    assert found == {
        "total_frames": "ValueError: total_frames is 0; it must be positive, or -1",
        "kind": f"ValueError: run {run} has no steps: its items are trajectory groups",
        "held": "RuntimeError: 16 batches are held and none was published: call "
        "update_policy_weights_(policy) after the optimizer steps of a batch",
        "weights": "TypeError: weights: expected a module or tensors by name, not <class 'int'>",
        "model_id": "KeyError: \"Model 'critic' not found in registered weight sync schemes. "
        "Available models: ['policy']\"",
        "seed": "NotImplementedError: set `seed` in the configuration of the run",
        "receiver": "RuntimeError: workers of a run receive weights through the platform",
    }
    assert refused.lines("names") == [{"names": ["a.weight"]}]


def states(server: Server, run: str) -> dict[int, str]:
    rows = server.get(f"/api/v1/runs/{run}/batches")["results"]
    return {row["ordinal"]: row["state"] for row in rows}


def test_a_killed_trainer_gets_the_same_batch_again(server: Server, tmp_path: Path) -> None:
    run = server.free_name("killed")
    server.post("/api/v1/runs", {"name": run, "preset": "cartpole", "start": True})
    own = {"run": run, "batches": 2}
    dying = settings(server, "train", **own, resume=False, hangs_at=2)
    with program(server, tmp_path / "first", PROGRAM, dying, partner="torchrl") as killed:
        cut = killed.wait_for("batch", count=2)
        [version] = killed.lines("published")
        killed.process.kill()
        killed.process.wait()
    assert states(server, run)[1] == "confirmed"
    assert states(server, run)[2] == "leased"

    again = settings(server, "train", **own, resume=True, hangs_at=0)
    with program(server, tmp_path / "second", PROGRAM, again, partner="torchrl") as resumed:
        resumed.finish()

    [start] = resumed.lines("start")
    assert (start["start"], start["weights"]) == (version["published"], version["weights"])
    assert resumed.lines("batch")[0] == cut
    assert states(server, run)[2] == states(server, run)[3] == "confirmed"
    server.post(f"/api/v1/runs/{run}/kill", {"reason": "done"})


def test_ppo_learns_cartpole_from_a_fleet(server: Server, tmp_path: Path) -> None:
    run = server.free_name("learning")
    server.post("/api/v1/runs", {"name": run, "preset": "cartpole", "start": True})
    command = ("examples/torchrl_ppo.py", "--url", server.url, "--run", run)
    token = ("--token", ADMIN_TOKEN)
    with program(server, tmp_path / "log", *command, *token, partner="torchrl") as learning:

        def has_learned() -> bool:
            assert learning.process.poll() is None, learning.log.read_text()[-4000:]
            recent = server.get(f"/api/v1/runs/{run}/episodes?limit=1")["results"]
            return bool(recent) and (recent[-1]["recent_return_mean"] or 0.0) >= MARK

        wait_until(has_learned, seconds=LEARNS_WITHIN_SECONDS, what=f"a mean return of {MARK}")
        fleet = server.get(f"/api/v1/runs/{run}/fleet")
        ledger = server.get(f"/api/v1/runs/{run}/ledger")["fragments"]
        server.post(f"/api/v1/runs/{run}/kill", {"reason": "it has learned"})
    assert all(worker["active_step"] >= 1 for worker in fleet["workers"])
    assert ledger["balanced"]
    assert ledger["served"] > 0
