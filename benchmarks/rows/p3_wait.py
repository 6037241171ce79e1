"""P3: the trainer's whole wait, from asking for a batch to padded arrays."""

from statistics import median

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL, Size
from benchmarks.deck import AtroposApi, Deck
from benchmarks.figures import Aim, Limit
from benchmarks.load import OtherProcess
from benchmarks.rows.p2_batch import SEQUENCES, fill
from benchmarks.trainers import our_trainer, our_wait, stock_wait

BATCHES = 4
PROFILED = 40


def take(bench: Bench) -> Figures:
    with bench.beside_atropos() as (deck, peer, load):

        def at(sequences: int, size: Size, batches: int) -> Figures:
            return bench.compare(
                f"{sequences} sequences of {size.tokens:,} tokens, pushed as JSON",
                ours=lambda: our_milliseconds(bench, deck, load, sequences, size, batches),
                peer=lambda: stock_milliseconds(bench, peer, load, sequences, size, batches),
                better="less",
            )

        usual = at(SEQUENCES, USUAL, PROFILED if bench.profiler else BATCHES)
        if bench.is_short:
            return usual
        growth = [
            {"work": "4×", **at(256, USUAL, 2)},
            {"work": "16×", **at(256, Size(sequences=8, tokens=8192), 1)},
        ]
    return usual | {"growth": growth}


def our_milliseconds(
    bench: Bench, deck: Deck, load: OtherProcess, sequences: int, size: Size, batches: int
) -> float:
    fill(deck, load, sequences=sequences, size=size, batches=batches)
    load.run(our_trainer, deck.url)
    with bench.metered(deck, per=batches):
        return 1000 * median(load.run(our_wait) for _ in range(batches))


def stock_milliseconds(
    bench: Bench, server: AtroposApi, load: OtherProcess, sequences: int, size: Size, batches: int
) -> float:
    fill(server, load, sequences=sequences, size=size, batches=batches)
    with bench.metered(server, per=batches):
        return 1000 * median(load.run(stock_wait, server.url) for _ in range(batches))


ROW = Row(
    name="P3",
    measure="a trainer's whole wait for 64 sequences: request → padded arrays",
    peer="requests + .json() + padding, as Atropos' example trainer does it",
    unit="ms",
    better="less",
    mark=Aim(words="≥ 40×", limits=(Limit(figure="ratio", at_least=40),)),
    goal=Aim(words="≥ 100×", limits=(Limit(figure="ratio", at_least=100),)),
    take=take,
)
