"""The training client of the real verifiers package generates with `rolldeck inference`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollouts.fleet.engine import checkpoints
from tests.partners import chat_checkpoint
from tests.unit.rollouts.fleet.engine.small_models import logprobs

pytestmark = pytest.mark.partner

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".partners" / "verifiers" / "bin" / "python"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Return the URL of `rolldeck inference` with the checkpoint in the test's folder."""
    chat_checkpoint.write(tmp_path)
    command = ["-m", "rolldeck.cli", "inference", "--checkpoint", str(tmp_path)]
    command += ["--port", "0", "--threads", "1", "--model-name", "tiny"]
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": ".:platform:client"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found.group()
        process.terminate()


def test_a_turn_has_the_tokens_and_logprobs_of_the_model(served: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("train_client_call.py")
    called = subprocess.run(
        [PYTHON, script, served, "tiny", tmp_path], capture_output=True, text=True, check=False
    )

    assert called.returncode == 0, called.stderr[-3000:]
    reply = json.loads(called.stdout)
    model = checkpoints.load(tmp_path, device="cpu").eval()
    expected = logprobs(model, reply["prompt"] + reply["tokens"])
    start = len(reply["prompt"]) - 1
    assert reply["logprobs"] == pytest.approx(
        [float(expected[start + at, token]) for at, token in enumerate(reply["tokens"])], abs=1e-4
    )
    assert 1 <= len(reply["tokens"]) <= 9
    assert reply["finish"] in {"stop", "length"}
