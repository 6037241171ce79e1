"""Recorded runs of outside environments: four push, one trainer trains, two lose their batches."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import httpx
import numpy as np

from rolldeck.errors import RolldeckError
from rolldeck.trainer import Trainer
from tests.recorded_runs.names import HOSTILE, MIXED
from tests.recorded_runs.people import Person
from tests.sample_runs import texts
from tests.sample_runs.groups import group_content
from tests.server import ADMIN_TOKEN, Server, wait_until

GROUP: Final = 8
BATCH: Final = 32
REGISTRATION: Final = {
    "wandb_group": "math-and-tools",
    "wandb_project": "rolldeck",
    "batch_size": BATCH,
    "max_token_len": 4096,
    "checkpoint_dir": "checkpoints",
    "save_checkpoint_interval": 10,
    "starting_step": 0,
    "num_steps": 400,
}
# Name, weight, minimum share of each batch, and the largest pause between two pushes in seconds.
ENVIRONMENTS: Final = (
    ("gsm8k", 2.0, 0.25, 1.2),
    ("code-exec", 1.0, None, 2.0),
    ("tool-use", 1.0, None, 2.5),
    ("gsm8k", 0.5, None, 2.0),
)
LEAVING: Final = 3
MOST_QUEUED: Final = 3 * BATCH // GROUP
"""Groups in the queue above which environments wait, as Atropos' own ones do."""
TRAIN_SECONDS: Final = (1.0, 2.2)


class PushingEnvironment(threading.Thread):
    """Environment that pushes one or two scored groups at a time."""

    def __init__(self, server: Server, number: int) -> None:
        """Register at the run."""
        super().__init__(daemon=True)
        name, weight, least, self._pause = ENVIRONMENTS[number]
        self._write = texts.PROBLEMS[name]
        self._random = np.random.default_rng(number)
        self._http = httpx.Client(
            base_url=f"{server.url}/atropos/{MIXED}",
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
            timeout=60,
        )
        body = {
            "max_token_length": 4096,
            "desired_name": name,
            "weight": weight,
            "group_size": GROUP,
            "min_batch_allocation": least,
        }
        registered = self._http.post("/register-env", json=body).raise_for_status().json()
        self._id: int = registered["env_id"]
        self._server = server
        self._stopping = threading.Event()

    def run(self) -> None:
        """Push until stopped, and wait while the queue is full."""
        while not self._stopping.wait(self._random.uniform(0.2, 1.0) * self._pause):
            state = self._http.request("GET", "/status-env", json={"env_id": self._id}).json()
            if state["queue_size"] > MOST_QUEUED:
                continue
            version = self._server.get(f"/api/v1/runs/{MIXED}")["policy_step"]
            groups = [self._group(version) for _ in range(int(self._random.integers(1, 3)))]
            self._http.post("/scored_data_list", json=groups)

    def _group(self, version: int) -> dict[str, Any]:
        problem = self._write(self._random, GROUP)
        content = group_content(
            problem,
            random=self._random,
            env_id=self._id,
            policy_step=max(version, 0),
            has_advantages=self._id == 0,
        )
        if self._random.random() < 0.1:
            content["overrides"] = [{"is_truncated": place == 3} for place in range(GROUP)]
        return content

    def close(self) -> None:
        """Stop pushing."""
        self._stopping.set()
        self.join(60)

    def leave(self) -> None:
        """Stop pushing and disconnect."""
        self.close()
        self._http.post("/disconnect-env", json={"env_id": self._id}).raise_for_status()


class Training(threading.Thread):
    """Trainer of a small policy; its metrics are those of the batches."""

    def __init__(self, server: Server) -> None:
        """Connect."""
        super().__init__(daemon=True)
        self._trainer = Trainer(server.url, MIXED, ADMIN_TOKEN, name="grpo-node-0")
        self._random = np.random.default_rng(11)
        self._stopping = threading.Event()

    def run(self) -> None:
        """Train until stopped."""
        step = 0
        with self._trainer:
            self._trainer.register()
            self._trainer.publish_weights(self._weights(), step=0)
            while not self._stopping.is_set():
                batch = self._trainer.next_batch(wait_seconds=1)
                if batch is None:
                    continue
                self._stopping.wait(self._random.uniform(*TRAIN_SECONDS))
                step += 1
                try:
                    self._trainer.publish_weights(self._weights(), step=step)
                    self._trainer.log_metrics(metrics_of(batch.padded()), step=step)
                    self._trainer.ack(batch)
                except RolldeckError:
                    continue

    def _weights(self) -> dict[str, Any]:
        return {"lm_head.weight": self._random.normal(0, 0.1, (16, 8)).astype(np.float32)}

    def close(self) -> None:
        """Stop after the current batch."""
        self._stopping.set()
        self.join(60)


def metrics_of(arrays: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of a batch."""
    scores, index = np.asarray(arrays["scores"]), np.asarray(arrays["group_index"])
    trained = np.asarray(arrays["masks"]) >= 0
    groups = [scores[index == each] for each in np.unique(index)]
    return {
        "reward_mean": float(scores.mean()),
        "answer_tokens": float(trained.sum(axis=1).mean()),
        "groups": float(len(groups)),
        "zero_variance_groups": float(sum(np.ptp(group) == 0 for group in groups)),
    }


@contextmanager
def mixed(server: Server, person: Person) -> Iterator[PushingEnvironment]:
    """Run the mix; yield the environment that leaves before the others."""
    body = {"name": MIXED, "kind": "outside", "tags": ["grpo", "atropos"], "start": True}
    person.post("/api/v1/runs", body)
    server.post(f"/atropos/{MIXED}/register", REGISTRATION)
    server.get(f"/atropos/{MIXED}/batch")  # environments register once a trainer has started
    with ExitStack() as stack:
        environments = [PushingEnvironment(server, number) for number in range(4)]
        for each in environments:
            each.start()
            stack.callback(each.close)
        _quarantine(server, person)
        trainer = Training(server)
        trainer.start()
        stack.callback(trainer.close)
        for name in ("archive", "dashboards"):
            path = f"/api/v1/runs/{MIXED}/followers/{name}"
            server.http.put(path, json={"start": "earliest"}).raise_for_status()
        yield environments[LEAVING]


def _quarantine(server: Server, person: Person) -> None:
    """Lease batches without an acknowledgement until two are quarantined; discard one."""
    root = f"/api/v1/runs/{MIXED}"
    lease_seconds = server.get(f"/api/v1/runs/{MIXED}")["lease_seconds"]
    person.patch(root, {"lease_seconds": 1, "reason": "a trainer that hangs"})

    def quarantined() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = server.get(f"{root}/batches")["results"]
        if not any(row["state"] == "leased" for row in rows):  # another request would renew it
            server.http.post(f"{root}/batches/next", json={})
        ended = [row for row in rows if row["state"] == "quarantined"]
        return ended if len(ended) >= 2 else []

    rows = wait_until(quarantined, seconds=300, what="two batches are quarantined")
    person.patch(root, {"lease_seconds": lease_seconds, "reason": "the trainer is replaced"})
    reason = "its prompts exceed the trainer's context"
    person.post(f"{root}/batches/{rows[-1]['id']}/discard", {"reason": reason})


def push_hostile_text(server: Server, person: Person) -> None:
    """Push text that is harmful when shown as anything but plain text, and pause the run."""
    person.post("/api/v1/runs", {"name": HOSTILE, "kind": "outside", "start": True})
    root = f"/atropos/{HOSTILE}"
    server.post(f"{root}/register", REGISTRATION | {"batch_size": 64, "max_token_len": 32_768})
    server.get(f"{root}/batch")
    name = f"env {texts.MARKUP} \u202eslave"[:180]
    body = {"max_token_length": 32_768, "desired_name": name, "weight": 1.0, "group_size": 4}
    env_id = server.post(f"{root}/register-env", body)["env_id"]
    random = np.random.default_rng(5)
    for problem in texts.hostile_problems():
        content = group_content(problem, random=random, env_id=env_id, policy_step=None)
        server.post(f"{root}/scored_data", content)
    time.sleep(1)
    person.post(f"/api/v1/runs/{HOSTILE}/pause", {"reason": texts.MARKUP})
