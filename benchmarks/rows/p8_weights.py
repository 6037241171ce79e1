"""P8: a version of the weights to four sampling workers, compared with one put and four gets."""

import contextlib
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

import msgspec

from benchmarks.bench import Bench, Figures, Row
from benchmarks.cluster import running_cluster
from benchmarks.figures import Limit, Target

WORKERS: Final = 4
USUAL_BYTES: Final = 100_000_000
TINY_BYTES: Final = 4_000_000
REST_SECONDS: Final = 0.5
"""Pause between versions, for sampling to recover and the object store to free memory."""


def run(bench: Bench) -> Figures:
    """Measure the usual size, then four times that; the peer runs during the same sampling."""
    usual = TINY_BYTES if bench.tiny else USUAL_BYTES
    taken = _at(bench, usual)
    if bench.is_short:
        return taken
    return taken | {"growth": [{"work": "4×", **_at(bench, 4 * usual)}]}


def _at(bench: Bench, size_bytes: int) -> Figures:
    with running_cluster(cpus=WORKERS), Fleet(size_bytes).sampling() as fleet:
        comparison = bench.compare(
            f"{size_bytes / 1e6:g} MB to {WORKERS} workers",
            ours=fleet.fan_out,
            peer=fleet.bare,
            better="more",
        )
        gaps = fleet.figures()
        fleet.pause()
        if not bench.is_alone:
            idle = median(fleet.bare() for _ in range(bench.pairs))
            gaps |= {"peer_idle": round(idle, 1), "ratio_idle": round(comparison["ours"] / idle, 3)}
    bench.say("  " + ", ".join(f"{name} {value:g}" for name, value in gaps.items()))
    return comparison | gaps


class Fleet:
    """Four rollout workers and four bare readers on one cluster."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._step = -1
        self._workers: list[Any] = []
        self._readers: list[Any] = []
        self._gaps: list[tuple[float, float]] = []
        self._paces: list[float] = []

    @contextlib.contextmanager
    def sampling(self) -> Iterator["Fleet"]:
        """Start the fleet with its first weights."""
        import ray

        from benchmarks.sampling import BareGetter, SamplingWorker

        self._workers = [
            SamplingWorker.remote(msgspec.json.encode(_settings(index)), self._size_bytes)  # type: ignore[attr-defined]
            for index in range(WORKERS)
        ]
        self._readers = [BareGetter.remote() for _ in range(WORKERS)]  # type: ignore[attr-defined]
        self._order("running")
        self.fan_out()
        self.bare()
        time.sleep(4 * REST_SECONDS)
        self._gaps.clear()
        self._paces.clear()
        try:
            yield self
        finally:
            ray.get([worker.stop.remote() for worker in self._workers])

    def pause(self) -> None:
        """Pause sampling on all workers."""
        self._order("paused")
        time.sleep(REST_SECONDS)

    def fan_out(self) -> float:
        """Send a version like a manager; return MB/s until the last worker has adopted it."""
        import ray

        from benchmarks import sampling
        from rollouts.fleet.weights.object_references import RefWeights
        from rollouts.fleet.weights.records import WeightsRecord

        time.sleep(REST_SECONDS)
        self._step += 1
        tensors = sampling.weights(self._size_bytes, fill=self._step)
        record = WeightsRecord(epoch=1, step=self._step, tensors=tensors)
        waiting = [worker.adopted.remote() for worker in self._workers]
        began = time.time()
        offer = RefWeights.put(record)
        ray.get([worker.update_weights.remote(offer) for worker in self._workers])
        seconds = max(ray.get(waiting)) - began
        self._look_at_sampling(began, seconds)
        return float(self._size_bytes / 1e6 / seconds)

    def bare(self) -> float:
        """Put the same bytes and get them four times; return MB/s until the last get."""
        import ray

        from benchmarks import sampling

        time.sleep(REST_SECONDS)
        tensors = sampling.weights(self._size_bytes, fill=-1)
        began = time.time()
        ref = ray.put(tensors)
        seconds = max(ray.get([reader.get.remote([ref]) for reader in self._readers])) - began
        return float(self._size_bytes / 1e6 / seconds)

    def figures(self) -> Figures:
        """Return figures of sampling during the transfers, compared with the time before."""
        return {
            "longest_gap_ms": round(1000 * max(during for _, during in self._gaps), 1),
            "longest_gap_before_ms": round(1000 * max(before for before, _ in self._gaps), 1),
            "sampling_pace": round(median(self._paces), 3),
        }

    def _look_at_sampling(self, began: float, seconds: float) -> None:
        """Compare the time from the put to the adoption with an equal time before."""
        import ray

        time.sleep(REST_SECONDS)
        stretches = (began - seconds, began), (began, began + seconds)
        gaps = [
            max(ray.get([worker.longest_gap.remote(*stretch) for worker in self._workers]))
            for stretch in stretches
        ]
        acts = [
            sum(ray.get([worker.acts.remote(*stretch) for worker in self._workers]))
            for stretch in stretches
        ]
        self._gaps.append((gaps[0], gaps[1]))
        self._paces.append(acts[1] / max(acts[0], 1))

    def _order(self, desired: Any) -> None:
        import ray

        from rollouts.fleet.worker.messages import WorkerCommand

        command = WorkerCommand(desired=desired, epoch=1, policy_step=0, credits=10_000_000)
        ray.get([worker.order.remote(command) for worker in self._workers])


def _settings(index: int) -> Any:
    from rollouts.fleet.process.settings import FleetSettings, WorkerSettings
    from runs.config.rules import run_config

    config = {
        "fleet": {"envs_per_worker": 8, "envs_per_process": 8, "inference_batch_size": 8},
        "buffer": {"max_staleness": 1000},
    }
    fleet = FleetSettings(
        platform_url="http://127.0.0.1:9",
        token="none",  # noqa: S106 never used
        run="p8",
        run_config=run_config.to_builtins(run_config.parse(config)),
        incarnation="1-bench",
    )
    return WorkerSettings(fleet=fleet, index=index, incarnation=f"1-bench-{index}")


ROW = Row(
    name="P8",
    measure="100 MB of weights from the manager to 4 workers, adopted while they sample",
    peer="one ray.put + 4 ray.get, beside the same sampling",
    unit="MB/s",
    better="more",
    mark=Target(words="≥ 0.8×", limits=(Limit(figure="ratio", at_least=0.8),)),
    goal=Target(words="≥ 0.95×", limits=(Limit(figure="ratio", at_least=0.95),)),
    run=run,
)
