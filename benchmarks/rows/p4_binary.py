"""P4: groups pushed by our client in binary form and acknowledged durably."""

from collections.abc import Callable

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL, Size
from benchmarks.figures import Limit, Target
from benchmarks.load import OtherProcess, Push, push_binary, push_json
from benchmarks.rolldeck_server import AtroposApi

GROUPS = 640
PEER_GROUPS = 200
PEER_CLIENTS = 16
BATCH_SIZE = 64


def run(bench: Bench) -> Figures:
    with bench.beside_atropos() as (rolldeck, peer, load):

        def at(
            clients: int, size: Size, groups: int, peer_groups: int, pairs: int | None = None
        ) -> Figures:
            return bench.compare(
                f"{clients} clients, {size.name}",
                ours=lambda: rate(bench, rolldeck, load, push_binary, clients, size, groups),
                peer=lambda: rate(bench, peer, load, push_json, PEER_CLIENTS, size, peer_groups),
                better="more",
                pairs=pairs,
            )

        one = at(1, USUAL, GROUPS, PEER_GROUPS)
        four = at(4, USUAL, GROUPS, PEER_GROUPS)
        if bench.is_short:
            return one | {"clients_4": four}
        growth = [
            {
                "work": f"{times}×",
                **at(
                    1,
                    Size(sequences=8, tokens=2048 * times),
                    GROUPS // times,
                    64 // times,
                    bench.growth_pairs,
                ),
            }
            for times in (4, 16)
        ]
    return one | {"clients_4": four, "growth": growth}


def rate(
    bench: Bench,
    server: AtroposApi,
    load: OtherProcess,
    work: Callable[[Push], float],
    clients: int,
    size: Size,
    groups: int,
) -> float:
    """Return groups per second, pushed into an empty run."""
    env_id = server.begin(batch_size=BATCH_SIZE, group_size=size.sequences)
    push = Push(url=server.url, size=size, groups=groups, clients=clients, env_id=env_id)
    with bench.metered(server, per=groups):
        seconds = load.run(work, push)
    if server.queue_size() != groups:
        raise ValueError(f"{server.queue_size()} of {groups} acknowledged groups are queued")
    return groups / seconds


ROW = Row(
    name="P4",
    measure="binary push by our client, 16 groups a request, acknowledged durably",
    peer="P1's: Atropos, JSON, 16 clients, in memory",
    unit="groups/s",
    better="more",
    mark=Target(words="≥ 6×", limits=(Limit(figure="ratio", at_least=6),)),
    goal=Target(words="≥ 10×", limits=(Limit(figure="ratio", at_least=10),)),
    run=run,
)
