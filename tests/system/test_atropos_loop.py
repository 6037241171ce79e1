"""An Atropos environment, our inference server and our trainer close the training loop.

The environment uses two URLs: it generates with `rolldeck inference`, which follows the run's
weights, and pushes to the run; `examples/grpo.py` trains on its groups and publishes the next
weights.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples import tiny_checkpoint
from rollouts.fleet.engine.tokenizers import load_tokenizer
from tests import processes
from tests.server import ADMIN_TOKEN, NO_RAY, ROOT, Server, environment, running_server, wait_until
from tests.stand_ins.digits_environment import DigitsEnvironment, Generated

pytestmark = pytest.mark.system

RUN = "digits"
VERSIONS = 12
"""After about eight versions the share of digits has risen by more than a group's noise."""
SECONDS = 420


@contextmanager
def serving(server: Server, checkpoint: Path) -> Iterator[str]:
    """Run `rolldeck inference` on a run's weights; yield its URL."""
    log = server.var / "serve.log"
    command = [
        *(sys.executable, "-m", "rolldeck.cli", "inference", "--port", "0", "--threads", "1"),
        *("--checkpoint", str(checkpoint), "--run", RUN),
        *("--url", server.url, "--token", ADMIN_TOKEN),
    ]
    with log.open("w") as output:
        process = processes.start(
            command,
            cwd=ROOT,
            env=environment(server.var, server.port) | {"PYTHONPATH": ".:platform:client"},
            stdout=output,
            stderr=output,
        )
    try:
        response = wait_until(
            lambda: re.search(r"(http://\S+)/v1", log.read_text()),
            seconds=120,
            what="the inference server listens",
        )
        yield response[1]
    finally:
        process.terminate()
        process.wait(60)


def mean_score(groups: list[Generated]) -> float:
    return sum(group.mean_score for group in groups) / len(groups)


def test_groups_are_generated_with_weights_trained_on_earlier_ones(tmp_path: Path) -> None:
    checkpoint = tmp_path / "tiny"
    tiny_checkpoint.write(checkpoint)
    with running_server(tmp_path / "var", RAY_ADDRESS=NO_RAY) as server:
        server.post("/api/v1/runs", {"name": RUN, "kind": "outside", "start": True})
        trainer = server.start_trainer(
            *(RUN, "--checkpoint", str(checkpoint), "--learning-rate", "0.003"), example="grpo"
        )
        with serving(server, checkpoint) as inference:
            loop = DigitsEnvironment(
                inference=inference,
                rollout_server=f"{server.url}/atropos/{RUN}",
                tokenizer=load_tokenizer(checkpoint),
            )
            loop.start()

            def has_turned() -> bool:
                assert trainer.poll() is None, (server.var / "trainer.log").read_text()[-2000:]
                assert not loop.error, loop.error
                return bool(loop.pushed) and loop.pushed[-1].version >= VERSIONS

            try:
                wait_until(has_turned, seconds=SECONDS, what=f"groups of version {VERSIONS}")
                run = server.get(f"/api/v1/runs/{RUN}")
            finally:
                loop.close()
                trainer.terminate()
                trainer.wait(30)

    versions = [group.version for group in loop.pushed]
    assert versions == sorted(versions)
    assert len(set(versions)) >= VERSIONS // 2
    assert run["policy_step"] >= VERSIONS
    early = [group for group in loop.pushed if group.version <= 1]
    assert mean_score(loop.pushed[-8:]) > mean_score(early) + 0.05
