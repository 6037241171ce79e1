"""The real package MineStudio 1.1.6 with our adapter; only its engine, in Java, is replaced."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.partner

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".partners" / "minestudio" / "bin" / "python"
TABLE = ROOT / "docs" / "reference" / "minestudio.md"


@pytest.fixture(scope="module")
def facts() -> Any:
    ran = subprocess.run(
        [PYTHON, "tests/partners/minestudio_probe.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/platform:{ROOT}/client"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_the_real_simulator_runs_an_episode_through_the_adapter(facts: Any) -> None:
    episode = facts["episode"]
    assert episode["image"] == episode["space"] == [64, 48, 3], "obs_size is width × height"
    assert episode["is_in_space"]
    assert episode["rendered"] == [64, 48, 3]
    assert episode["rewards"] == [1.5, 1.5]
    assert episode["ends"] == [[False, False], [True, False]]
    assert episode["seed"] == 7


def test_callbacks_are_built_by_the_real_function(facts: Any) -> None:
    assert {"FastResetCallback", "CommandsCallback"} <= set(facts["episode"]["callbacks"])


def test_a_configuration_without_effect_is_refused(facts: Any) -> None:
    assert facts["unread"].startswith("kwargs.callbacks: no callback of MineStudio reads")
    assert "fast_reset" in facts["unread"]


@pytest.mark.parametrize("name", ["RolloutManager", "RolloutWorker", "EnvWorker"])
def test_every_parameter_of_the_rollout_module_has_a_counterpart_in_the_docs(
    facts: Any, name: str
) -> None:
    section = TABLE.read_text().split(f"## `{name}`")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert documented == facts["parameters"][name]
