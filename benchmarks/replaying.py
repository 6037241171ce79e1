"""Insert into and sample from our replay buffer, in a separate process."""

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.load import timed_threads
from benchmarks.rolldeck_server import TOKEN
from rolldeck.replay import ReplayBufferInterface, pack_fragment
from rolldeck.wire import Fragment

RUN: Final = "replay"
STEPS: Final = 2048
# With a fragment's required columns, as many bytes as the peer's item: 8 × 2,048 × 9.
OBSERVED: Final = 11
FRAGMENTS_A_PUSH: Final = 16
ITEMS_A_SAMPLE: Final = 32
CONFIG: Final[dict[str, Any]] = {
    "buffer": {
        "batch_size": ITEMS_A_SAMPLE,
        "max_staleness": 1024,
        "replay": {"sampler": "uniform", "max_reuse": 1 << 20, "max_chunks": 20_000},
    }
}
_slots = itertools.count()


def insert(url: str, *, items: int, clients: int) -> float:
    """Return the seconds in which clients insert items durably."""
    share = items // clients // FRAGMENTS_A_PUSH

    def client(index: int) -> None:
        slot = f"w{index}-{next(_slots)}@{time.time_ns():x}"
        with ReplayBufferInterface(url, RUN, TOKEN) as buffer:
            gate.wait()
            for push in range(share):
                first = push * FRAGMENTS_A_PUSH
                numbers = range(first, first + FRAGMENTS_A_PUSH)
                receipt = buffer.add_fragments([_fragment(slot, number) for number in numbers])
                if receipt.accepted != FRAGMENTS_A_PUSH:
                    raise ValueError(f"not all fragments were accepted: {receipt}")

    gate = threading.Barrier(clients + 1)
    return timed_threads(client, clients, gate)


def sample(url: str, *, items: int, tokens: Sequence[str]) -> float:
    """Return the seconds in which trainers sample items and acknowledge each batch.

    There is one trainer per token. Each leases its own batch, like the peer's clients, which have
    a sampler each.
    """
    left = iter(range(items // ITEMS_A_SAMPLE))
    lock = threading.Lock()

    def trainer(index: int) -> None:
        with ReplayBufferInterface(url, RUN, tokens[index], name=f"trainer {index}") as buffer:
            buffer.update_training_session(resume=True)
            batch = None
            gate.wait()
            while True:
                with lock:
                    if next(left, None) is None:
                        break
                batch = buffer.fetch(ITEMS_A_SAMPLE, wait_seconds=10, ack=batch)
                if batch is None or len(batch.fragments) != ITEMS_A_SAMPLE:
                    raise ValueError(f"not a whole batch: {batch}")
            if batch is not None:
                buffer.ack(batch)

    gate = threading.Barrier(len(tokens) + 1)
    return timed_threads(trainer, len(tokens), gate)


def open_session(url: str) -> None:
    """Publish version 0, which counts as the sampling version of all fragments."""
    with ReplayBufferInterface(url, RUN, TOKEN) as buffer:
        buffer.update_training_session()
        buffer.update_model_version({"w": np.zeros(1, np.float32)}, step=0)


def _fragment(slot: str, number: int) -> Fragment:
    return pack_fragment(
        _ARRAYS,
        slot=slot,
        number=number,
        environment="gymnasium:CartPole-v1",
        worker="0",
        epoch=1,
        episode_ids=["e"],
    )


def _made() -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(0)
    plain = {name: np.zeros(STEPS, bool) for name in ("first", "terminated", "truncated")}
    floats = {
        name: random.random(STEPS).astype(np.float32)
        for name in ("reward", "behavior_logprob", "value")
    }
    return {
        **plain,
        **floats,
        "obs": random.integers(0, 151_936, (STEPS, OBSERVED), dtype=np.int32),
        "next_obs": np.zeros(OBSERVED, np.int32),
        "action": np.zeros(STEPS, np.int64),
        "policy_step": np.zeros(STEPS, np.int32),
        "episode_index": np.zeros(STEPS, np.int32),
    }


_ARRAYS: Final = _made()
