"""P3: the trainer's whole wait, from its request for a batch to padded arrays."""

from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL, Size
from benchmarks.figures import Limit, Target
from benchmarks.load import OtherProcess, Push, push_binary, push_json
from benchmarks.rolldeck_server import AtroposApi, RolldeckServer
from benchmarks.rows.p2_batch import LARGE, SEQUENCES, fill
from benchmarks.trainers import our_trainer, our_wait, stock_wait

PushWork = Callable[[Push], float]
BATCHES = 4
PROFILED = 40


def run(bench: Bench) -> Figures:
    with bench.beside_atropos() as (rolldeck, peer, load):

        def at(
            sequences: int,
            size: Size,
            batches: int,
            *,
            push: PushWork = push_binary,
            pairs: int | None = None,
        ) -> Figures:
            filled: dict[str, Any] = {"sequences": sequences, "size": size, "batches": batches}
            form = "binary" if push is push_binary else "JSON"
            return bench.compare(
                f"{sequences} sequences of {size.tokens:,} tokens, pushed as {form}",
                ours=lambda: our_milliseconds(bench, rolldeck, load, push=push, **filled),
                peer=lambda: stock_milliseconds(bench, peer, load, **filled),
                better="less",
                pairs=pairs,
            )

        usual = at(SEQUENCES, USUAL, PROFILED if bench.profiler else BATCHES)
        if bench.is_short:
            return usual
        as_json = at(SEQUENCES, USUAL, BATCHES, push=push_json)
        growth = [
            {"work": "4×", **at(256, USUAL, 2, pairs=bench.growth_pairs)},
            {"work": "16×", **at(256, LARGE, 1, pairs=bench.growth_pairs)},
        ]
    return usual | {"pushed_as_json": as_json, "growth": growth}


def our_milliseconds(
    bench: Bench, rolldeck: RolldeckServer, load: OtherProcess, *, batches: int, **filled: Any
) -> float:
    """Return the median wait of our client; the first batch is a warm-up."""
    fill(rolldeck, load, batches=batches + 1, **filled)
    load.run(our_trainer, rolldeck.url)
    load.run(our_wait)
    with bench.metered(rolldeck, per=batches):
        return 1000 * median(load.run(our_wait) for _ in range(batches))


def stock_milliseconds(
    bench: Bench, server: AtroposApi, load: OtherProcess, *, batches: int, **filled: Any
) -> float:
    """Return the median wait of the stock trainer."""
    fill(server, load, batches=batches, **filled)
    with bench.metered(server, per=batches):
        return 1000 * median(load.run(stock_wait, server.url) for _ in range(batches))


ROW = Row(
    name="P3",
    measure="a trainer's whole wait for 64 sequences: request → padded arrays",
    peer="requests + .json() + padding, as Atropos' example trainer does it",
    unit="ms",
    better="less",
    mark=Target(words="≥ 40×", limits=(Limit(figure="ratio", at_least=40),)),
    goal=Target(words="≥ 100×", limits=(Limit(figure="ratio", at_least=100),)),
    run=run,
)
