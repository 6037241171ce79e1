"""`manage.py demo grpo`: a language run learns with the real platform, fleet and trainer."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.initial_database import copy_database
from tests.server import ROOT, environment, free_port, wait_until
from tests.system.test_up import living

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]

SMALL = {
    "fleet": {"num_workers": 1},
    "language": {
        "lessons": {
            "reverse-3-letters": {
                "spec": "task:reverse",
                "kwargs": {"length": 2, "letters": 3},
                "sampling": {"max_tokens": 6},
            },
            "reverse-6-letters": {
                "spec": "task:reverse",
                "kwargs": {"length": 2, "letters": 6},
                "requires": [{"lesson": "reverse-3-letters", "min_success": 0.5}],
                "sampling": {"max_tokens": 6},
            },
        },
        "model": {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "intermediate_size": 128,
            "max_position_embeddings": 32,
        },
        "evaluation": {"every_train_steps": 10, "examples": 128},
    },
    "buffer": {"batch_size": 64, "max_staleness": 2, "off_policy_tolerance": 2.0},
}


def test_lessons_graduate_on_a_real_fleet(tmp_path: Path) -> None:
    config = tmp_path / "small.json"
    config.write_text(json.dumps(SMALL))
    copy_database(tmp_path / "var" / "postgres")

    done = processes.run(
        [sys.executable, "manage.py", "demo", "grpo", "--exit", "--config", str(config)],
        cwd=ROOT,
        env=environment(tmp_path / "var", free_port()),
        capture_output=True,
        text=True,
        timeout=1300,
    )

    trainer = tmp_path / "var" / "log" / "trainer.log"
    assert done.returncode == 0, done.stdout + done.stderr + trainer.read_text()[-3000:]
    moves = re.findall(r"^(reverse-\d-letters) (\w+) at version \d+ \(", done.stdout, re.MULTILINE)
    assert moves.index(("reverse-3-letters", "graduates")) < moves.index(
        ("reverse-6-letters", "unlocks")
    )
    assert ("reverse-6-letters", "graduates") in moves
    learnt = re.search(
        r"Learnt .* 2 of 2 lessons have graduated, 2 required, (\S+) evaluated at ([\d.]+) %",
        done.stdout,
    )
    assert learnt is not None
    assert learnt[1] == "reverse-3-letters"
    assert float(learnt[2]) >= 90
    wait_until(lambda: not living(tmp_path), seconds=60, what="nothing lives")
