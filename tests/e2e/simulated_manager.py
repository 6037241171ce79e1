"""Simulate the manager of a fleet: real messages over real HTTP, without a Ray cluster.

Pages show a fleet's reports and its answers to requests. A test that sets both knows the
expected page content, and needs no worker processes.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import httpx
import msgspec

from benchmarks.fleet_reports import BECOME_MANAGER
from rolldeck.operator_requests import (
    RECORDING_TYPE,
    LogLines,
    LogRequest,
    RecordedEpisode,
    RecordingUpdate,
)
from rolldeck.wire import (
    EpisodeWindow,
    FleetControl,
    FleetReport,
    SlotReport,
    WeightsTransfers,
    WorkerReport,
)
from tests.e2e.conftest import in_the_shell
from tests.server import Server, wait_until

REPORT_SECONDS: Final = 0.5
CONFIG: Final = {
    "environment": {"spec": "gymnasium:CartPole-v1"},
    "fleet": {"num_workers": 2, "envs_per_worker": 4, "inference_batch_size": 4},
}


class SimulatedManager:
    """Simulated fleet of one run; the test sets its reports."""

    def __init__(
        self,
        server: Server,
        name: str,
        *,
        config: Mapping[str, Any] = CONFIG,
    ) -> None:
        """Create a run and become its manager; the reconciler replaces it when it is silent.

        Args:
            server: Server of the run.
            name: Name of the run.
            config: Configuration of the run.
        """
        self.name = server.free_name(name)
        self.workers = 2
        self._replacements: dict[int, int] = {}
        """Number of replacements by worker."""
        self.kept_out: set[int] = set()
        """Workers that have ended and are not replaced."""
        self.last_logs: dict[int, str] = {}
        """Newest log line by worker."""
        """Stack traces that answer every request; no answer is sent while the list is empty."""
        self.acting = (-2, 0)
        """Policy version of all workers, and the weight order that they have applied."""
        self.logs: dict[tuple[int | None, int | None], list[str]] = {}
        self.usage: Callable[[int], dict[str, Any]] = lambda _: {}
        """Measured fields of a worker's report, by worker."""
        self.episodes: list[EpisodeWindow] = []
        self.control: FleetControl | None = None
        code = BECOME_MANAGER.format(name=name, config=dict(config), url=server.url)
        self._incarnation, token = json.loads(in_the_shell(server, code).splitlines()[-1])
        self._http = httpx.Client(
            base_url=f"{server.url}/api/v1/runs/{name}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
        )
        self._began = time.monotonic()
        self._sequence = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def ordered(self, *, recordings: int) -> list[str]:
        """Wait until so many recordings are requested, and return the ids of all requested ones."""

        def recorded_slots() -> list[str]:
            orders = self.control.recordings if self.control else []
            return [order.id for order in orders] if len(orders) >= recordings else []

        return wait_until(recorded_slots, seconds=30, what="recordings are ordered")

    def evaluate(self, *, successes: int) -> list[str]:
        """Finish every due evaluation as a worker does; return the lessons."""
        done: list[str] = []
        request = {"worker": "w0@1", "epoch": 1, "policy_step": 0}
        while (task := self._post("/lessons/tasks", request))["kind"] == "evaluate":
            right = [place < successes for place in range(task["examples"])]
            outcome = request | {
                "key": task["evaluation"],
                "mode": "eval",
                "generations": 1,
                "rewards": [float(share) for share in right],
                "successes": right,
                "evaluation": task["evaluation"],
                "fence": task["fence"],
            }
            self._post(f"/lessons/{task['lesson']}/outcomes", outcome)
            done.append(task["lesson"])
        return done

    def recorded(self, recording: str, content: str, **fields: Any) -> None:
        """Deliver an episode as text, as a worker does."""
        frames = content.count("\f") + 1
        media = RecordedEpisode(media_type="text/plain", frames=frames, frames_per_second=30.0)
        given: dict[str, Any] = {"total_return": 9.5, "length": frames, "outcome": "terminated"}
        self.update(recording, "ready", media=media, content=content.encode(), **given | fields)

    def update(self, recording: str, state: str, **fields: Any) -> None:
        """Report the state of a recording."""
        fields = {"worker": 0, "slot": 3, **fields}
        update = RecordingUpdate(state=state, **fields)  # type: ignore[arg-type]
        self._http.put(
            f"/recordings/{recording}",
            content=msgspec.msgpack.encode(update),
            headers={"Content-Type": RECORDING_TYPE},
        ).raise_for_status()

    def replace(self, worker: int) -> None:
        """Report that another process has replaced a worker."""
        self._replacements[worker] = self._replacements.get(worker, 0) + 1

    def acts_with(self, step: int, *, order: int) -> None:
        """Set the policy version of all workers and the weight order that they have applied."""
        self.acting = step, order

    def close(self) -> None:
        """Stop all reports."""
        self._is_over.set()
        self._thread.join(10)
        self._http.close()

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._http.post(path, json=body)
        answer.raise_for_status()
        return answer.json()

    def _play(self) -> None:
        while not self._is_over.is_set():
            # A server that another test has killed comes back.
            with suppress(httpx.HTTPError):
                self._report()
                self._listen()

    def _report(self) -> None:
        episodes, self.episodes = self.episodes, []
        report = FleetReport(
            incarnation=self._incarnation,
            sequence=self._sequence,
            state="running",
            workers=[self._worker(index) for index in range(self.workers)],
            episodes=episodes,
        )
        self._sequence += 1
        answer = self._http.post("/fleet/report", content=msgspec.json.encode(report))
        self._receive(answer)

    def _listen(self) -> None:
        query = {"after": self.control.fingerprint if self.control else "", "wait": REPORT_SECONDS}
        self._receive(self._http.get("/fleet/control", params=query))

    def _receive(self, answer: httpx.Response) -> None:
        answer.raise_for_status()
        self.control = msgspec.json.decode(answer.content, type=FleetControl)
        for request in self.control.log_requests:
            self._answer_log(request)

    def _answer_log(self, request: LogRequest) -> None:
        lines = self.logs.get((request.worker, request.slot), [])
        read = LogLines(lines=lines, node="node-a", path=f"/logs/w{request.worker}.log")
        # The platform refuses the answer if the request was repeated meanwhile, which is fine.
        self._http.post(f"/fleet/logs/{request.id}", content=msgspec.json.encode(read))

    def _worker(self, index: int) -> WorkerReport:
        made = int(100 * (time.monotonic() - self._began)) + 1
        return WorkerReport(
            index=index,
            incarnation=f"{index}@{self._replacements.get(index, 0)}",
            state="stopped" if index in self.kept_out else "running",
            is_cordoned=index in self.kept_out,
            last_log=self.last_logs.get(index, ""),
            node="node-a",
            pid=100 + index,
            announced_step=self.acting[0],
            staged_step=self.acting[0],
            active_step=self.acting[0],
            transfers=WeightsTransfers(order=self.acting[1]),
            env_steps=made,
            env_steps_per_second=100.0,
            time_use="Stepping environments takes 71 % of its time.",
            slots=[SlotReport(slot=slot, state="stepping", episodes=3) for slot in range(4)],
            **self.usage(index),
        )


@contextmanager
def simulated_manager(
    server: Server, name: str, *, config: Mapping[str, Any] = CONFIG
) -> Iterator[SimulatedManager]:
    """Simulate the fleet of a new run until the end of the block."""
    fleet = SimulatedManager(server, name, config=config)
    try:
        yield fleet
    finally:
        fleet.close()
        # A running run without a manager would get a real one, which would slow other tests down.
        server.post(f"/api/v1/runs/{name}/kill", {"reason": "the test is over"})


def window(*returns: float, mode: str = "train", **fields: Any) -> EpisodeWindow:
    """Return statistics of episodes that ended on worker 0, each as long as its return."""
    mean = sum(returns) / len(returns)
    values: dict[str, Any] = {
        "environment": "gymnasium:CartPole-v1",
        "worker": 0,
        "mode": mode,
        "seconds": 1.0,
        "count": len(returns),
        "return_sum": sum(returns),
        "return_mean": mean,
        "return_min": min(returns),
        "return_max": max(returns),
        "return_p10": min(returns),
        "return_p50": mean,
        "return_p90": max(returns),
        "discounted_return_mean": mean,
        "length_mean": mean,
        "length_max": int(max(returns)),
        "terminated": len(returns),
        "truncated": 0,
        "aborted": 0,
        "returns": list(returns),
        "lengths": [int(value) for value in returns],
    }
    return EpisodeWindow(**values | fields)
