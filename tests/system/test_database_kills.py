"""Fleet, example trainer and client survive ten kills of PostgreSQL."""

import os
import signal
import threading
from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest

from rolldeck.sender import GroupSender
from rolldeck.trainer import Trainer
from tests.buffer_factories import REGISTRATION, group
from tests.server import ADMIN_TOKEN, Server, running_server, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]

KILLS: Final = 10
BATCH: Final = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("database-kills")) as server:
        wait_until(lambda: "Ready on" in server.log(), seconds=300, what="every part is ready")
        yield server


class Producer(threading.Thread):
    """Producer that pushes groups with our client until stopped or until a call raises."""

    def __init__(self, server: Server, run: str) -> None:
        super().__init__(daemon=True)
        self.sender = GroupSender(server.url, run, ADMIN_TOKEN)
        self.acknowledged: list[int] = []
        self.error: Exception | None = None
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            with self.sender:
                for mark in count(1):
                    self.sender.push_groups([group(mark=mark, sequences=1)])
                    self.acknowledged.append(mark)
                    if self.stopping.wait(0.02) and mark % BATCH == 0:
                        return
        except Exception as error:  # noqa: BLE001 shown by the test
            self.error = error


class Consumer(threading.Thread):
    """Consumer that trains with our client on all groups of the producer."""

    def __init__(self, server: Server, run: str, producer: Producer) -> None:
        super().__init__(daemon=True)
        self.trainer = Trainer(server.url, run, ADMIN_TOKEN)
        self.producer = producer
        self.served: list[int] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self.trainer:
                self.trainer.register(resume=True)
                while not self.is_done():
                    batch = self.trainer.next_batch(wait_seconds=1)
                    if batch is None:
                        continue
                    marks = [int(group["tokens"][0][0]) for group in batch.groups]
                    self.trainer.ack(batch)
                    self.trainer.log_metrics({"loss": 0.1}, step=batch.head.ordinal)
                    self.served += marks
        except Exception as error:  # noqa: BLE001 shown by the test
            self.error = error

    def is_done(self) -> bool:
        producer = self.producer
        return not producer.is_alive() and len(self.served) >= len(producer.acknowledged)


def fleet_counts(server: Server, run: str) -> tuple[int, int]:
    """Return the accepted and the served fragments of a run; zeros during an outage."""
    answer = server.http.get(f"/api/v1/runs/{run}/ledger")
    if answer.status_code == 503:
        return 0, 0
    ledger = answer.raise_for_status().json()["fragments"]
    return ledger["accepted"], ledger["served"]


def test_clients_survive_ten_kills_of_the_database(server: Server) -> None:
    fleet_run = server.free_name("kills-of-a-fleet")
    server.post("/api/v1/runs", {"name": fleet_run, "preset": "cartpole", "start": True})
    example = server.start_trainer(fleet_run)
    run = server.new_run("kills")
    server.post(
        f"/atropos/{run}/register", REGISTRATION | {"batch_size": BATCH, "num_steps": 1_000_000}
    )
    producer = Producer(server, run)
    consumer = Consumer(server, run, producer)
    for thread in (producer, consumer):
        thread.start()

    def counts() -> tuple[int, ...]:
        alive = producer.is_alive() and consumer.is_alive() and example.poll() is None
        assert alive, (producer.error, consumer.error, server.trainer_log())
        return len(producer.acknowledged), len(consumer.served), *fleet_counts(server, fleet_run)

    try:
        wait_until(lambda: min(counts()) > 0, seconds=300, what="all are under way")
        for number in range(KILLS):
            before = counts()
            os.kill(server.child("postgres", "-D"), signal.SIGKILL)
            wait_until(
                lambda before=before: all(
                    now > then for now, then in zip(counts(), before, strict=True)
                ),
                seconds=90,
                what=f"all go on after kill {number + 1}",
            )
        producer.stopping.set()
        producer.join(120)
        consumer.join(120)
    finally:
        example.terminate()
        example.wait(20)

    assert (producer.error, consumer.error) == (None, None)
    assert [producer.is_alive(), consumer.is_alive()] == [False, False]
    assert sorted(consumer.served) == producer.acknowledged
    groups = server.get(f"/api/v1/runs/{run}/ledger")["groups"]
    assert (groups["accepted"], groups["balanced"]) == (len(producer.acknowledged), True)
    assert server.get(f"/api/v1/runs/{fleet_run}/ledger")["fragments"]["balanced"]

    def states() -> list[str]:
        fleet = server.get(f"/api/v1/runs/{fleet_run}/fleet")
        return [worker["state"] for worker in fleet["workers"]]

    # Workers are unknown until the first report after the last outage.
    wait_until(lambda: states() == ["running", "running"], seconds=90, what="both workers run")
