"""Programs of the environment `transferqueue`: TransferQueue on a local Ray, with our backend.

``produce RUN FILE`` pushes samples from a Ray actor until it is killed; ``reconcile RUN`` compares
all samples with the expected ones; ``compare RUN`` measures both storages.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import psutil
import ray
import torch
import transfer_queue
from omegaconf import OmegaConf
from tensordict import NonTensorStack, TensorDict

from rolldeck.integrations import transfer_queue as backend
from rolldeck.integrations.transfer_queue import restore

HOOK = "rolldeck.integrations.transfer_queue.register"
BATCH = 4
ROUNDS = 5
TOGETHER = 2000


def report(**fields: Any) -> None:
    sys.stdout.write(f"{json.dumps(fields)}\n")
    sys.stdout.flush()


def start(storage: str, run: str) -> None:
    backend.register()
    settings = {"url": os.environ["ROLLDECK_URL"], "run": run}
    chosen = {"storage_backend": storage, "rolldeck": settings}
    transfer_queue.init(OmegaConf.create({"backend": chosen}))


def local_ray() -> None:
    hook = {"worker_process_setup_hook": HOOK}
    ray.init(num_cpus=8, include_dashboard=False, runtime_env=hook, log_to_driver=False)


def fields_of(first: int) -> TensorDict:
    """Return the fields of the samples `first` to `first` + BATCH."""
    numbers = range(first, first + BATCH)
    ids = [torch.arange(number % 7 + 1) + number for number in numbers]
    seeds = [torch.Generator().manual_seed(number) for number in numbers]
    logprobs = torch.stack([torch.rand(3000, generator=seed) for seed in seeds])
    return TensorDict(
        {
            "ids": torch.nested.as_nested_tensor(ids, layout=torch.jagged),
            "logprobs": logprobs,
            "half": logprobs[:, :5].to(torch.bfloat16),
            "score": logprobs[:, 0],
            "info": NonTensorStack(*({"number": number, "text": "é"} for number in numbers)),
        },
        batch_size=BATCH,
    )


def keys_of(first: int) -> list[str]:
    return [f"s{number}" for number in range(first, first + BATCH)]


@ray.remote
class Producer:
    """Producer that writes the first number of each acknowledged batch to a file."""

    def pid(self) -> int:
        return os.getpid()

    def produce(self, path: str) -> None:
        transfer_queue.init()
        with open(path, "a", buffering=1) as file:  # noqa: PTH123
            for first in range(0, 1 << 20, BATCH):
                tags = [{"number": number} for number in range(first, first + BATCH)]
                transfer_queue.kv_batch_put(keys_of(first), "train", fields_of(first), tags)
                file.write(f"{first}\n")


def produce(run: str, path: str) -> None:
    local_ray()
    start("rolldeck", run)
    # Tags without fields, and a tag changed alone.
    transfer_queue.kv_put("prompt", "prompts", tag={"state": "pending"})
    transfer_queue.kv_put("prompt", "prompts", tag={"state": "finished"})
    # A sample without a key, by the other interface.
    transfer_queue.get_client().put(fields_of(100), partition_id="keyless")
    producer = Producer.remote()  # type: ignore[attr-defined]
    pid = ray.get(producer.pid.remote())
    work = producer.produce.remote(path)
    children = psutil.Process().children(recursive=True)
    (controller,) = [
        child.pid
        for child in children
        if any("TransferQueueController" in word for word in child.cmdline())
    ]
    rest = [child.pid for child in children]
    report(producer=pid, controller=controller, children=rest)
    ray.get(work)


def differences(found: TensorDict, expected: TensorDict) -> list[str]:
    """Return the names of fields that differ."""
    rows = range(len(found))
    return [
        name
        for name in expected.keys()  # noqa: SIM118 a TensorDict iterates over rows
        if any(not equal(found[name][row], expected[name][row]) for row in rows)
    ]


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        # Scalars of a batch are returned with the shape of the batch.
        return one.dtype == other.dtype and torch.equal(one.reshape(-1), other.reshape(-1))
    return bool(one == other)


def reconcile(run: str) -> None:
    local_ray()
    start("rolldeck", run)
    client = transfer_queue.get_client()
    # `init` has restored the samples already.
    again = restore(client)
    listed = transfer_queue.kv_list()["train"]
    numbers = sorted(int(key[1:]) for key in listed)
    wrong = [key for key, tags in listed.items() if tags != {"number": int(key[1:])}]
    for start_ in range(0, len(numbers), BATCH):
        found = transfer_queue.kv_batch_get(keys_of(numbers[start_]), "train")
        wrong += differences(found, fields_of(numbers[start_]))
    meta = client.get_meta(
        data_fields=["ids", "logprobs", "half", "score", "info"],
        batch_size=BATCH,
        partition_id="keyless",
        task_name="train",
    )
    keyless = differences(client.get_data(meta), fields_of(100))
    status = transfer_queue.kv_list()["prompts"]["prompt"]
    transfer_queue.kv_clear(list(listed), "train")
    transfer_queue.kv_clear("prompt", "prompts")
    client.clear_partition("keyless")
    left = list(client.storage_manager.storage_client.store.rows())
    report(
        numbers=numbers,
        restored=again.samples,
        values=again.values,
        status=status,
        wrong=wrong,
        keyless=keyless,
        left=len(left),
    )
    transfer_queue.close()


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


async def put_together(small: dict[str, torch.Tensor]) -> None:
    """Put single samples, 64 at a time."""
    places = asyncio.Semaphore(64)

    async def put(number: int) -> None:
        async with places:
            await transfer_queue.async_kv_put(f"t{number}", "q", small)

    await asyncio.gather(*map(put, range(TOGETHER)))


def measured() -> dict[str, float]:
    """Return the throughput of batches in MB/s and of single samples of 8 KiB per second."""
    tokens = torch.randint(0, 1 << 20, (256, 8192))
    fields = TensorDict({"ids": tokens, "logprobs": torch.rand(256, 8192)}, batch_size=256)
    megabytes = sum(field.nbytes for field in fields.values()) / 1e6
    puts, gets = [], []
    for round_ in range(ROUNDS):
        keys = [f"{round_}-{row}" for row in range(256)]
        puts.append(seconds(lambda: transfer_queue.kv_batch_put(keys, "p", fields)))  # noqa: B023
        gets.append(seconds(lambda: transfer_queue.kv_batch_get(keys, "p")))  # noqa: B023
        transfer_queue.kv_clear(keys, "p")
    small = {"ids": torch.arange(1024)}
    single = seconds(lambda: [transfer_queue.kv_put(f"{n}", "q", small) for n in range(100)])
    together = seconds(lambda: asyncio.run(put_together(small)))
    return {
        "megabytes": megabytes,
        "put_mb_per_s": megabytes / median(puts),
        "get_mb_per_s": megabytes / median(gets),
        "small_puts_per_s": 100 / single,
        "small_puts_per_s_of_64_tasks": TOGETHER / together,
    }


def compare(run: str) -> None:
    local_ray()
    found = {}
    for storage in ("SimpleStorage", "rolldeck"):
        start(storage, run)
        found[storage] = measured()
        transfer_queue.close()
    report(**found)


def refuse(run: str) -> None:
    """Print the messages of values that the backend does not store."""
    local_ray()
    start("rolldeck", run)
    messages = []
    for value in (torch.zeros(2, dtype=torch.complex64), object(), {1, 2}, 1 << 70):
        try:
            transfer_queue.kv_put("bad", "train", {"value": value})
        except Exception as error:  # noqa: BLE001 TransferQueue wraps some
            messages.append(str(error))
        else:
            messages.append("")
    odd = {"empty": torch.zeros(0), "bools": torch.tensor([True, False]), "none": None}
    transfer_queue.kv_put("odd", "train", odd)
    found = transfer_queue.kv_batch_get("odd", "train")
    left = [
        row["key"]
        for row in transfer_queue.get_client().storage_manager.storage_client.store.rows()
    ]
    report(
        messages=messages,
        kept=sorted(key.partition("@")[2] for key in left),
        empty=found["empty"][0].numel(),
        bools=found["bools"][0].tolist(),
        none=found["none"][0] is None,
    )
    transfer_queue.close()


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"produce": produce, "reconcile": reconcile, "compare": compare, "refuse": refuse}[command](
        *arguments
    )
