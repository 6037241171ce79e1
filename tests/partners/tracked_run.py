"""A run with data to track, the `rolldeck run track` command, and an MLflow server."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx

from buffer.inspect.services import digest_groups
from rolldeck.wire import GROUPS_TYPE
from runs.config.rules import run_config
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.rules import RunVerb
from runs.lifecycle.services.lifecycle import change_status
from tests.buffer_factories import REGISTRATION
from tests.factories import make_run, make_token
from tests.lesson_factories import written_group
from tests.server import free_port
from tests.waiting import eventually

ROOT: Final = Path(__file__).resolve().parents[2]
BIN: Final = ROOT / ".partners" / "trackers" / "bin"
PYTHON: Final = BIN / "python"
PROJECT: Final = "arithmetic"
QUESTION: Final = "What is 2 + 2?"
ANSWER: Final = "2 + 2 = 4"


class TrackedRun:
    """An outside run with a registered trainer, written through the API."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.run = self.make()
        self.token = make_token("read", "trainer", "env", "worker", run=self.run)[1]
        self.http = httpx.Client(
            base_url=base, headers={"Authorization": f"Bearer {self.token}"}, timeout=30
        )
        names = {"wandb_project": PROJECT, "wandb_group": "grpo"}
        self.post("/atropos/sums/register", REGISTRATION | names)
        self.steps = 0

    def make(self) -> Run:
        """Create the run."""
        return make_run(name="sums", kind=RunKind.OUTSIDE)

    def post(self, path: str, body: Any) -> Any:
        answer = self.http.post(path, json=body)
        answer.raise_for_status()
        return answer.json()

    def train(self, steps: int) -> None:
        """Record two metrics for each of the following train steps."""
        for step in range(self.steps, self.steps + steps):
            values = {"loss": 1 / (1 + step), "reward/mean": step / 8}
            samples = [{"name": n, "step": step, "value": v} for n, v in values.items()]
            self.post("/api/v1/runs/sums/metrics", {"samples": samples})
        self.steps += steps

    def push_group(self) -> None:
        """Push one group with messages and make it searchable."""
        messages = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": ANSWER},
        ]
        group = {
            "tokens": [[1, 2, 3], [1, 2, 4]],
            "masks": [[-100, 2, 3], [-100, 2, 4]],
            "scores": [0.25, 0.75],
            "messages": [messages, messages],
        }
        self.post("/atropos/sums/scored_data", group)
        digest_groups(now=datetime.now(UTC), seconds=60)

    def change(self, verb: RunVerb, reason: str = "") -> None:
        # The command waits for the measurement after the end of a run that has just ended.
        age = timedelta(hours=1) if verb is RunVerb.KILL else timedelta(0)
        now = datetime.now(UTC) - age
        change_status(run_id=self.run.pk, verb=verb, actor="test", reason=reason, now=now)

    def scalars(self) -> dict[str, list[list[float]]]:
        """Return the samples by name, as the API has them."""
        names = self.http.get("/api/v1/runs/sums/metrics/names").json()["results"]
        found = {}
        for name in names:
            query = {"name": name}
            page = self.http.get("/api/v1/runs/sums/metrics/samples", params=query).json()
            found[name] = [list(pair) for pair in zip(page["step"], page["value"], strict=True)]
        return found

    def has_groups(self, count: int) -> bool:
        """Return whether the run has at least so many groups."""
        listed = self.http.get(
            "/api/v1/trajectories", params={"run": "sums", "limit": count}
        ).json()
        return len(listed["results"]) >= count

    @property
    def name(self) -> str:
        return f"sums-{Run.objects.get(pk=self.run.pk).pk}"


class LanguageRun(TrackedRun):
    """A run of the curriculum preset with a registered trainer, and the requests of its worker."""

    def make(self) -> Run:
        """Create the run at version (1, 0)."""
        config = run_config.to_builtins(run_config.PRESETS["curriculum"][1])
        run = make_run(name="sums", config=config)
        Run.objects.filter(pk=run.pk).update(epoch=1, policy_step=0)
        return Run.objects.get(pk=run.pk)

    def push_answers(self, lesson: str, prompt: str, *answers: str) -> None:
        """Push a group of answers as tokens, and make it searchable."""
        content = written_group(self.run, lesson, prompt, list(answers))
        headers = {"Content-Type": GROUPS_TYPE}
        path = "/api/v1/runs/sums/groups"
        self.http.post(path, content=content, headers=headers).raise_for_status()
        digest_groups(now=datetime.now(UTC), seconds=60)

    def evaluate(self, sample: dict[str, Any]) -> str:
        """Finish the next due evaluation with right answers only; return its lesson."""
        request = {"worker": "w0@1", "epoch": 1, "policy_step": 0}
        task = self.post("/api/v1/runs/sums/lessons/tasks", request)
        leased = {name: task[name] for name in ("evaluation", "fence", "generations")}
        count = task["examples"] * task["generations"]
        self.report(task["lesson"], count, mode="eval", samples=[sample], **leased)
        return str(task["lesson"])

    def report(self, lesson: str, count: int, *, mode: str, **fields: Any) -> None:
        """Report right answers to a lesson."""
        outcome = {
            "key": f"{lesson}-{mode}",
            "worker": "w0@1",
            "mode": mode,
            "epoch": 1,
            "policy_step": 0,
            "generations": 1,
            "rewards": [1.0] * count,
            "successes": [True] * count,
        }
        self.post(f"/api/v1/runs/sums/lessons/{lesson}/outcomes", outcome | fields)


class Tracking:
    """One tracker with its storage in a folder."""

    def __init__(self, tracker: str, folder: Path, run: TrackedRun, uri: str = "") -> None:
        self.tracker = tracker
        self.folder = folder
        self._run = run
        self.variables: dict[str, str] = {}
        """Further environment variables of the command."""
        self._uri = uri or f"sqlite:///{folder}/mlflow.db"

    def command(self, *more: str) -> list[str]:
        words = [str(PYTHON), "-m", "rolldeck.cli", "run", "track", "sums", "--to", self.tracker]
        words += ["--every", "0.2", "--state", str(self.folder / "state"), *more]
        if self.tracker == "mlflow":
            words += ["--tracker-url", self._uri]
        if self.tracker == "tensorboard":
            words += ["--logdir", str(self.folder / "tensorboard")]
        return words

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": str(ROOT / "client"),
            "ROLLDECK_URL": self._run.base,
            "ROLLDECK_TOKEN": self._run.token,
            "WANDB_MODE": "offline",
            "WANDB_DIR": str(self.folder),
            "TRACKIO_DIR": str(self.folder / "trackio"),
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
            **self.variables,
        }

    def start(self, *more: str) -> subprocess.Popen[str]:
        with (self.folder / "track.log").open("a") as log:
            return subprocess.Popen(
                self.command(*more),
                cwd=self.folder,
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def finish(self, process: subprocess.Popen[str]) -> None:
        """Wait for the end of the command, which must succeed."""
        assert process.wait(120) == 0, self.log()

    def log(self) -> str:
        return (self.folder / "track.log").read_text()[-4000:]

    def contents(self) -> Mapping[str, Any]:
        """Return what the tracker has stored, read by its own package."""
        places = {
            "mlflow": self._uri,
            "tensorboard": str(self.folder / "tensorboard"),
            "trackio": str(self.folder / "trackio"),
            "wandb": str(self.folder),
        }
        command = [PYTHON, "tests/partners/tracker_contents.py", self.tracker]
        done = subprocess.run(
            [*command, places[self.tracker], PROJECT],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:] + self.log()
        found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def position(self) -> dict[str, Any]:
        """Return the stored position; empty before the first batch."""
        files = list((self.folder / "state").glob("*.json"))
        return json.loads(files[0].read_text()) if files else {}

    def has_sent(self, name: str, count: int) -> bool:
        series = self.position().get("series", {})
        return name in series and series[name]["count"] >= count


@contextmanager
def running(tracking: Tracking, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command until the block ends; end it if it still runs then."""
    process = tracking.start(*more)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)


class MlflowServer:
    """A real `mlflow server` on loopback that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(BIN / "mlflow"), "server", "--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self.folder}/server.db"]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
            )
        eventually(self._answers, seconds=120, interval_seconds=0.2)

    def kill(self) -> None:
        """Kill the server and its workers with SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.uri}/health", timeout=2).status_code == 200
        except httpx.TransportError:
            return False
