"""Trainers in a separate process: the stock example's method, and our client's."""

import math
import random
import socket
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import requests
from numpy.typing import NDArray

from benchmarks.bodies import Numbered, Size, json_group
from benchmarks.http_client import Line, request_bytes
from benchmarks.rolldeck_server import RUN, TOKEN
from rolldeck.batches import Batch
from rolldeck.trainer import Trainer

Arrays = dict[str, NDArray[Any]]
GOOD_MULTIPLE: Final = 64
POLL_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 120.0


def stock_wait(url: str) -> float:
    """Return the seconds of one wait of Atropos' example trainer: GET, JSON, padding.

    `example_trainer/api.py` calls `requests.get(…).json()`: a new connection for each batch, with
    gzip, which `requests` accepts by default.
    """
    began = time.perf_counter()
    batch = requests.get(f"{url}/batch", timeout=LONGEST_SECONDS).json()["batch"]
    padded_as_the_example_does(batch)
    return time.perf_counter() - began


def padded_as_the_example_does(batch: list[dict[str, Any]]) -> Arrays:
    """Pad a batch like `pad_data_to_good_offset` of `example_trainer/data.py`.

    The numpy calls are the same, row by row. The final copies into torch tensors are left out, in
    its favour, because our client's result is numpy arrays too.
    """
    longest = max(len(row) for group in batch for row in group["tokens"])
    length = math.ceil((longest - 1) / GOOD_MULTIPLE) * GOOD_MULTIPLE + 1
    tokens, labels, advantages, logprobs = [], [], [], []
    for group in batch:
        scores = np.array(group["scores"])
        if len(scores) > 1:
            scores = scores - scores.mean()
            scores = scores / max(scores.std(), 1e-8)
        for index, row in enumerate(group["tokens"]):
            pad = max(0, length - len(row))
            labels.append(
                np.concatenate(
                    [np.array(group["masks"][index]), np.full(pad, -100, dtype=np.int32)]
                )[1:]
            )
            tokens.append(np.concatenate([np.array(row), np.zeros(pad, dtype=np.int32)])[:-1])
            advantages.append(scores[index])
            raw = np.array(group["inference_logprobs"][index], dtype=np.float32)
            padded = np.full(length, 1.0, dtype=np.float32)
            padded[: len(raw)] = raw
            logprobs.append(padded[1:])
    return {
        "tokens": np.stack(tokens),
        "labels": np.stack(labels),
        "advantages": np.stack(advantages),
        "inference_logprobs": np.stack(logprobs),
    }


class _Kept:
    """Our trainer of this process, registered and with an open connection, as between two steps."""

    trainer: Trainer | None = None
    held: Batch | None = None


def our_trainer(url: str) -> None:
    """Register our trainer with the new run."""
    if _Kept.trainer is not None:
        _Kept.trainer.close()
    _Kept.trainer = Trainer(url, RUN, TOKEN)
    _Kept.trainer.register(resume=True)
    _Kept.held = None


def our_wait() -> float:
    """Return the seconds of one wait of our client: ack the last batch, lease, pad to arrays."""
    trainer = _Kept.trainer
    if trainer is None:
        raise RuntimeError("call our_trainer first")
    began = time.perf_counter()
    if _Kept.held is not None:
        trainer.ack(_Kept.held)
    _Kept.held = trainer.next_batch(LONGEST_SECONDS)
    if _Kept.held is None:
        raise ValueError("no batch arrived")
    _Kept.held.padded(multiple_of=GOOD_MULTIPLE)
    return time.perf_counter() - began


def our_loop(url: str, batches: int, ahead: int, step_seconds: float) -> float:
    """Return the mean seconds per batch of a training loop; the first batch is a warm-up.

    Args:
        url: URL of the server.
        batches: Number of batches to time.
        ahead: Batches that are leased ahead.
        step_seconds: Duration of a train step.
    """
    with Trainer(url, RUN, TOKEN) as trainer:
        trainer.register(resume=True)
        began = 0.0
        for place, batch in enumerate(trainer.batches(ahead=ahead)):
            if place == 1:
                began = time.perf_counter()
            if place > batches:
                return (time.perf_counter() - began) / batches
            batch.padded(multiple_of=GOOD_MULTIPLE)
            time.sleep(step_seconds)
    raise ValueError(f"the queue had fewer than {batches + 2} batches")


# --- Delay from the last group's ack to the batch's arrival ---


def our_receiver(url: str, batches: int, report_port: int) -> None:
    """Lease batches by long poll, and send the pusher the time of each arrival."""
    with Trainer(url, RUN, TOKEN) as trainer, _report_socket(report_port) as report:
        trainer.register(resume=True)
        for _ in range(batches):
            batch = trainer.next_batch(LONGEST_SECONDS)
            report.send(repr(time.monotonic()).encode())
            if batch is None:
                raise ValueError("no batch arrived")
            trainer.ack(batch)


def stock_receiver(url: str, batches: int, report_port: int) -> None:
    """Get batches like `example_trainer/data.py`: request, and sleep a second if none is ready."""
    with _report_socket(report_port) as report:
        for _ in range(batches):
            while requests.get(f"{url}/batch", timeout=LONGEST_SECONDS).json()["batch"] is None:
                time.sleep(POLL_SECONDS)
            report.send(repr(time.monotonic()).encode())


def _report_socket(port: int) -> socket.socket:
    teller = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    teller.connect(("127.0.0.1", port))
    return teller


Start = Callable[[int], Callable[[], None]]


def deliveries(
    start: Start, *, url: str, size: Size, env_id: int, groups: int, batches: int, rest: float
) -> list[float]:
    """Return the seconds from the ack of each batch's last group until a trainer has the batch.

    Args:
        start: Starts the trainer in another process; it sends each arrival to the given port.
        url: URL of the server.
        size: Size of the groups.
        env_id: Environment of the groups.
        groups: Groups per batch.
        batches: Number of deliveries to time.
        rest: Maximum pause, in seconds, before the last group; it is random, so that it falls
            at a random time of a polling trainer's sleep.
    """
    bodies = Numbered(
        request_bytes("POST", "/scored_data", json_group(size, seed=1, env_id=env_id))
    )
    taken = []
    number = int(time.monotonic() * 1000)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener, Line(url) as line:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(LONGEST_SECONDS)
        finished = start(listener.getsockname()[1])
        time.sleep(0.3)
        for _ in range(batches):
            for _ in range(groups - 1):
                line.ok(bodies.with_number(number := number + 1))
            time.sleep(0.02 + rest * random.random())  # noqa: S311 not a secret
            line.ok(bodies.with_number(number := number + 1))
            acknowledged = time.monotonic()
            taken.append(float(listener.recv(64)) - acknowledged)
        finished()
    return taken
