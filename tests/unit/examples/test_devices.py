"""Every example trainer accepts a device, and refuses one that this machine lacks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TRAINERS = (
    *("ppo_cartpole.py", "ppo_continuous.py", "ppo_recurrent.py", "grpo.py"),
    "own_policy/own_policy/train.py",
)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_missing_device_is_refused_at_its_option(trainer: str) -> None:
    folders = ("", "platform", "client", "examples/own_policy")
    done = subprocess.run(
        [sys.executable, f"examples/{trainer}", "--run", "any", "--device", "cuda:99"],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(str(ROOT / folder) for folder in folders), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "argument --device: cuda:99 cannot be used: " in done.stderr
