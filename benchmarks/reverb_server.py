"""Run Reverb's server, or load it, with an interpreter that has Reverb.

`serve PORT` serves one table with uniform sampling and FIFO eviction. `load PORT` reads lines of
`insert COUNT THREADS` and `sample COUNT THREADS`, and responds to each with the elapsed seconds.
"""

import sys
import threading
import time

import numpy as np
import reverb

TABLE = "replay"
CAPACITY = 20_000
SEQUENCES, TOKENS = 8, 2048


def serve(port: int) -> None:
    table = reverb.Table(
        name=TABLE,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=CAPACITY,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    reverb.Server(tables=[table], port=port).wait()


def item() -> list[np.ndarray]:
    """Return an item like ours: tokens int32, masks bool, log-probabilities float32."""
    random = np.random.default_rng(0)
    shape = (SEQUENCES, TOKENS)
    return [
        random.integers(0, 151_936, shape, dtype=np.int32),
        random.integers(0, 2, shape).astype(np.bool_),
        -random.exponential(0.7, shape).astype(np.float32),
        random.random(SEQUENCES).astype(np.float32),
    ]


def insert(address: str, count: int) -> None:
    client, data = reverb.Client(address), item()
    for _ in range(count):
        client.insert(data, priorities={TABLE: 1.0})


def sample(address: str, count: int) -> None:
    client = reverb.Client(address)
    taken = sum(1 for _ in client.sample(TABLE, num_samples=count, emit_timesteps=False))
    if taken != count:
        raise ValueError(f"{taken} of {count} samples arrived")


def load(port: int) -> None:
    address = f"127.0.0.1:{port}"
    reverb.Client(address).server_info(timeout=60)
    print("ready", flush=True)
    for line in sys.stdin:
        verb, count, clients = line.split()
        work = {"insert": insert, "sample": sample}[verb]
        share = int(count) // int(clients)
        threads = [
            threading.Thread(target=work, args=(address, share)) for _ in range(int(clients))
        ]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    {"serve": serve, "load": load}[sys.argv[1]](int(sys.argv[2]))
