"""Record the measurements of runs that are driven into known states.

Run as ``python -m tests.diagnosis_cases.record [CASE …]`` in the repository's folder, with
``PYTHONPATH=.:platform:client``. A case takes four minutes.
"""

import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests import processes
from tests.diagnosis_cases.cases import CASES
from tests.diagnosis_cases.language_cases import FAILING_PORT, INFERENCE_PORT
from tests.server import ROOT, Server, environment, running_server, wait_until

INFERENCE: Final = {
    name: {"kind": "rolldeck", "url": f"http://127.0.0.1:{port}"}
    for name, port in (("local", INFERENCE_PORT), ("failing", FAILING_PORT))
}
NOT_RUNNING: Final = {"crash-loop", "inference-down", "inference-failed", "paused"}
"""Cases in which no worker has to run."""
FOLDER: Final = ROOT / "tests/unit/rollouts/diagnosis/cases"
CODE: Final = Path(__file__).parent / "code"
SETTLE_SECONDS: Final = 75.0
"""Longer than the window of the measurements, one minute."""
AT_ONCE: Final = 3
"""Number of cases recorded at once; most of their parts wait."""
SAMPLES: Final = 24
INTERVAL_SECONDS: Final = 5.0
READ: Final = """
import json, sys, time
from dataclasses import asdict
from django.utils import timezone
from rollouts.diagnosis.queries.pipelines import facts_of
from runs.lifecycle.models import Run
for _ in range({samples}):
    began = time.monotonic()
    facts = facts_of(Run.objects.get(name={run!r}), now=timezone.now())
    print("FACTS " + json.dumps(asdict(facts)), flush=True)
    time.sleep(max(0.0, {interval} - (time.monotonic() - began)))
"""


def main(names: list[str]) -> None:
    """Record the named cases, or all."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "PYTHONPATH": str(CODE),
            "ROLLDECK_ENVIRONMENTS": "module:limited_parts:Paced",
            "ROLLDECK_POLICIES": "module:limited_parts:SlowPolicy",
            "ROLLDECK_CHECKPOINTS": f"{folder}/checkpoints",
            "ROLLDECK_INFERENCE_SERVERS": json.dumps(INFERENCE),
            "ROLLDECK_RAY_CPUS": "16",
        }
        with running_server(Path(folder) / "var", **variables) as server:
            wait_until(lambda: "Ready on" in server.log(), seconds=900, what="every part is ready")
            with ThreadPoolExecutor(AT_ONCE) as threads:
                list(threads.map(lambda name: record(server, name, Path(folder)), names or CASES))


def record(server: Server, name: str, folder: Path) -> None:
    """Record a case into its file."""
    driver, expected = CASES[name]
    with driver(server, name, folder):
        has_fleet = server.get(f"/api/v1/runs/{name}")["kind"] != "outside"
        if has_fleet and name not in NOT_RUNNING:
            wait_until(
                lambda: (
                    "running"
                    in [w["state"] for w in server.get(f"/api/v1/runs/{name}/fleet")["workers"]]
                ),
                seconds=400,
                what=f"a worker of {name} runs",
            )
        time.sleep(SETTLE_SECONDS)
        samples = read(server, name)
    server.post(f"/api/v1/runs/{name}/kill", {"reason": "recorded"})
    case = {"expected": expected, "interval_seconds": INTERVAL_SECONDS, "samples": samples}
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(case, indent=1) + "\n")
    print(f"{name}: {len(samples)} samples")  # noqa: T201 progress for a person


def read(server: Server, run: str) -> list[dict[str, Any]]:
    """Return the measurements of a run, at regular intervals."""
    done = processes.run(
        [
            *(sys.executable, "manage.py", "shell", "-c"),
            READ.format(samples=SAMPLES, interval=INTERVAL_SECONDS, run=run),
        ],
        cwd=ROOT,
        env=environment(server.var, server.port),
        capture_output=True,
        timeout=300,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("FACTS ")]
    return [json.loads(line.removeprefix("FACTS ")) for line in lines]


if __name__ == "__main__":
    main(sys.argv[1:])
