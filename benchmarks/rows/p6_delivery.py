"""P6: delay from the ack of the last group to the batch's arrival at the trainer."""

from statistics import fmean, median

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL
from benchmarks.figures import Limit, Target, percentile
from benchmarks.load import OtherProcess
from benchmarks.rolldeck_server import AtroposApi, RolldeckServer
from benchmarks.trainers import POLL_SECONDS, deliveries, our_receiver, stock_receiver

SAMPLES = 200
PEER_SAMPLES = 4
LONG_POLL_REST = 0.03


def run(bench: Bench) -> Figures:
    with bench.beside_atropos() as (rolldeck, peer, load):

        def at(groups: int, samples: int, pairs: int | None = None) -> Figures:
            seen: list[float] = []
            waited: list[float] = []
            comparison = bench.compare(
                f"batches of {groups} groups",
                ours=lambda: _p50(seen, of(bench, rolldeck, load, groups, samples)),
                peer=lambda: _p50(waited, of(bench, peer, load, groups, PEER_SAMPLES)),
                better="less",
                pairs=pairs,
            )
            return (
                comparison | _spread_of(seen) | ({"peer_mean_ms": fmean(waited)} if waited else {})
            )

        usual = at(1, 5 if bench.tiny else SAMPLES // bench.pairs + 1)
        if bench.is_short:
            return usual
        growth = [{"work": f"{times}×", **at(times, 10, bench.growth_pairs)} for times in (4, 16)]
    return usual | {"growth": growth}


def of(
    bench: Bench, server: AtroposApi, load: OtherProcess, groups: int, batches: int
) -> list[float]:
    """Return the milliseconds of `batches` deliveries, each of a batch of `groups` groups."""
    env_id = server.begin(batch_size=groups * USUAL.sequences, group_size=USUAL.sequences)
    is_rolldeck = isinstance(server, RolldeckServer)
    receiver = our_receiver if is_rolldeck else stock_receiver
    with bench.metered(server, per=batches):
        taken = deliveries(
            lambda port: load.start(receiver, server.url, batches, port),
            url=server.url,
            size=USUAL,
            env_id=env_id,
            groups=groups,
            batches=batches,
            rest=LONG_POLL_REST if is_rolldeck else POLL_SECONDS,
        )
    return [1000 * seconds for seconds in taken]


def _p50(seen: list[float], taken: list[float]) -> float:
    seen += taken
    return max(median(taken), 0.001)


def _spread_of(taken: list[float]) -> Figures:
    return {
        "samples": len(taken),
        "p50_ms": percentile(taken, 50),
        "p99_ms": percentile(taken, 99),
        "max_ms": max(taken),
    }


ROW = Row(
    name="P6",
    measure="last group acknowledged → batch in the trainer's hands, long poll (p50)",
    peer="Atropos' trainers poll once a second",
    unit="ms",
    better="less",
    mark=Target(
        words="p50 ≤ 10 ms, p99 ≤ 50 ms",
        limits=(Limit(figure="p50_ms", at_most=10), Limit(figure="p99_ms", at_most=50)),
    ),
    goal=Target(
        words="p50 ≤ 3 ms, p99 ≤ 20 ms",
        limits=(Limit(figure="p50_ms", at_most=3), Limit(figure="p99_ms", at_most=20)),
    ),
    run=run,
)
