"""P2: batches served as JSON."""

from collections.abc import Callable

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL, Size
from benchmarks.figures import Limit, Target
from benchmarks.load import OtherProcess, Push, get_batches, push_json
from benchmarks.rolldeck_server import AtroposApi

SEQUENCES = 64
LARGE = Size(sequences=8, tokens=8192)
BATCHES = 24
PROFILED = 40
PUSHING = 4


def run(bench: Bench) -> Figures:
    with bench.beside_atropos() as (rolldeck, peer, load):

        def at(sequences: int, size: Size, batches: int, pairs: int | None = None) -> Figures:
            return bench.compare(
                f"{sequences} sequences of {size.tokens:,} tokens",
                ours=lambda: rate(bench, rolldeck, load, sequences, size, batches),
                peer=lambda: rate(bench, peer, load, sequences, size, batches),
                better="more",
                pairs=pairs,
            )

        if bench.tiny:
            return at(16, Size(sequences=8, tokens=16), 2)
        usual = at(SEQUENCES, USUAL, PROFILED if bench.profiler else BATCHES)
        if bench.is_short:
            return usual
        growth = [
            {"work": "4×", **at(256, USUAL, 6, bench.growth_pairs)},
            {"work": "16×", **at(256, LARGE, 1, bench.growth_pairs)},
        ]
    return usual | {"growth": growth}


def rate(
    bench: Bench, server: AtroposApi, load: OtherProcess, sequences: int, size: Size, batches: int
) -> float:
    """Return batches per second, read completely, from a queue that holds exactly these."""
    fill(server, load, sequences=sequences, size=size, batches=batches)
    with bench.metered(server, per=batches):
        seconds = load.run(get_batches, server.url, batches)
    return batches / seconds


def fill(
    server: AtroposApi,
    load: OtherProcess,
    *,
    sequences: int,
    size: Size,
    batches: int,
    push: Callable[[Push], float] = push_json,
) -> None:
    """Queue the groups for `batches` batches of `sequences` sequences, in a new run."""
    env_id = server.begin(batch_size=sequences, group_size=size.sequences)
    groups = batches * sequences // size.sequences
    work = Push(url=server.url, size=size, groups=groups, clients=PUSHING, env_id=env_id)
    load.run(push, work)


ROW = Row(
    name="P2",
    measure="GET /batch of 64 sequences, JSON",
    peer="Atropos, in memory",
    unit="batches/s",
    better="more",
    mark=Target(words="≥ 40×", limits=(Limit(figure="ratio", at_least=40),)),
    goal=Target(words="≥ 60×", limits=(Limit(figure="ratio", at_least=60),)),
    run=run,
)
