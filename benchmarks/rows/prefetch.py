"""Prefetch: what a trainer waits per step, by the number of batches that it leases ahead."""

from statistics import median

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL
from benchmarks.load import other_process, push_binary
from benchmarks.rows.p2_batch import SEQUENCES, fill
from benchmarks.trainers import our_loop

AHEAD = (0, 1, 2)
BATCHES = 16
STEP_SECONDS = 0.05
"""Duration of a train step; the processor is idle meanwhile, as with a GPU."""


def run(bench: Bench) -> Figures:
    batches = 2 if bench.tiny else BATCHES
    waits: dict[int, list[float]] = {ahead: [] for ahead in AHEAD}
    with bench.rolldeck() as rolldeck, other_process() as load:
        for _ in range(bench.pairs):
            for ahead, taken in waits.items():
                count = batches + 2 + max(AHEAD)
                fill(
                    rolldeck,
                    load,
                    sequences=SEQUENCES,
                    size=USUAL,
                    batches=count,
                    push=push_binary,
                )
                seconds = load.run(our_loop, rolldeck.url, batches, ahead, STEP_SECONDS)
                taken.append(1000 * (seconds - STEP_SECONDS))
    figures = {
        f"ahead {ahead}": {
            "wait_ms": round(median(taken), 3),
            "lowest_ms": round(min(taken), 3),
            "highest_ms": round(max(taken), 3),
        }
        for ahead, taken in waits.items()
    }
    bench.say(f"  {figures}")
    return figures | {"step_ms": 1000 * STEP_SECONDS, "batches": batches}


ROW = Row(
    name="prefetch",
    measure="a trainer's wait per step of 50 ms for 64 sequences, by batches leased ahead",
    peer="–",
    unit="ms",
    better="less",
    mark=None,
    goal=None,
    run=run,
)
