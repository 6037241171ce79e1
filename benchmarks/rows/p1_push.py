"""P1: groups pushed as JSON and acknowledged durably."""

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL, Size
from benchmarks.figures import Limit, Target
from benchmarks.load import OtherProcess, Push, push_json
from benchmarks.rolldeck_server import AtroposApi

GROUPS = 200
CLIENTS = 16
BATCH_SIZE = 64


def run(bench: Bench) -> Figures:
    with bench.beside_atropos() as (rolldeck, peer, load):

        def at(clients: int, size: Size, groups: int, pairs: int | None = None) -> Figures:
            return bench.compare(
                f"{clients} clients, {size.name}",
                ours=lambda: rate(bench, rolldeck, load, clients, size, groups),
                peer=lambda: rate(bench, peer, load, clients, size, groups),
                better="more",
                pairs=pairs,
            )

        groups = 8 if bench.tiny else GROUPS
        one, many = at(1, USUAL, groups), at(CLIENTS, USUAL, groups)
        if bench.is_short:
            return one | {"clients_16": many}
        growth = [
            {
                "work": f"{times}×",
                **at(
                    1,
                    Size(sequences=8, tokens=2048 * times),
                    groups // times,
                    bench.growth_pairs,
                ),
            }
            for times in (4, 16)
        ]
    return one | {"clients_16": many, "ratio_16": many.get("ratio"), "growth": growth}


def rate(
    bench: Bench, server: AtroposApi, load: OtherProcess, clients: int, size: Size, groups: int
) -> float:
    """Return groups per second, pushed into an empty run."""
    env_id = server.begin(batch_size=BATCH_SIZE, group_size=size.sequences)
    push = Push(url=server.url, size=size, groups=groups, clients=clients, env_id=env_id)
    with bench.metered(server, per=groups):
        seconds = load.run(push_json, push)
    if server.queue_size() != groups:
        raise ValueError(f"{server.queue_size()} of {groups} acknowledged groups are queued")
    return groups / seconds


ROW = Row(
    name="P1",
    measure="POST /scored_data, JSON, acknowledged durably; 1 client, and 16",
    peer="Atropos, in memory",
    unit="groups/s",
    better="more",
    mark=Target(
        words="≥ 2× with 1 client, ≥ 3× with 16",
        limits=(Limit(figure="ratio", at_least=2), Limit(figure="ratio_16", at_least=3)),
    ),
    goal=None,
    run=run,
)
