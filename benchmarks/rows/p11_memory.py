"""P11: memory of a queued group, and memory growth after gigabytes have passed through."""

from statistics import median

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL, json_group
from benchmarks.figures import Limit, Paired, Target, alone
from benchmarks.load import OtherProcess, Push, get_batches, push_json
from benchmarks.rolldeck_server import AtroposApi, RolldeckServer

WARM_GROUPS = 128
QUEUED_GROUPS = 1_000
PUSHING = 4
BATCH_GROUPS = 8
ROUND_GROUPS = 64
# Memory grows until every thread of the servers has processed the largest body.
FILLING_BYTES = 2_000_000_000
PASSING_BYTES = 2_000_000_000
FULL_PASSING_BYTES = 20_000_000_000
MEGABYTE = 1e6


def run(bench: Bench) -> Figures:
    with bench.beside_atropos() as (rolldeck, peer, load):
        queued = 64 if bench.tiny else QUEUED_GROUPS
        # Data that passes first fills caches and pools, so that only the queue adds memory.
        passing = passed_through(bench, rolldeck, load)
        rolldeck_megabytes = megabytes_of_a_group(rolldeck, load, queued)
        bench.say(f"  {queued} queued: ours {rolldeck_megabytes:.4f} MB a group")
        if bench.is_alone:
            figures = alone([rolldeck_megabytes])
        else:
            peer_megabytes = megabytes_of_a_group(peer, load, queued)
            bench.say(f"  {queued} queued: peer {peer_megabytes:.4f} MB a group")
            # A ratio needs a value above zero.
            figures = Paired(
                ours=[max(rolldeck_megabytes, 1e-4)], peer=[peer_megabytes], better="less"
            ).as_json()
    return figures | passing | {"queued_groups": queued}


def memory_bytes(server: AtroposApi) -> int:
    """Return a server's memory: web processes' resident and PostgreSQL's private memory."""
    return sum(server.memory_bytes().values())


def _push(server: AtroposApi, load: OtherProcess, env_id: int, groups: int) -> None:
    push = Push(url=server.url, size=USUAL, groups=groups, clients=PUSHING, env_id=env_id)
    load.run(push_json, push)


def megabytes_of_a_group(server: AtroposApi, load: OtherProcess, groups: int) -> float:
    """Return a server's growth per queued group, after some groups to warm up."""
    env_id = server.begin(batch_size=BATCH_GROUPS * USUAL.sequences, group_size=USUAL.sequences)
    _push(server, load, env_id, WARM_GROUPS)
    before = memory_bytes(server)
    _push(server, load, env_id, groups)
    return (memory_bytes(server) - before) / groups / MEGABYTE


def _pass_once(rolldeck: RolldeckServer, load: OtherProcess, env_id: int) -> None:
    _push(rolldeck, load, env_id, ROUND_GROUPS)
    load.run(get_batches, rolldeck.url, ROUND_GROUPS // BATCH_GROUPS)


def passed_through(bench: Bench, rolldeck: RolldeckServer, load: OtherProcess) -> Figures:
    """Return our memory while gigabytes are pushed and served, sampled ten times.

    Earlier data fills caches and pools, and is not counted.
    """
    env_id = rolldeck.begin(batch_size=BATCH_GROUPS * USUAL.sequences, group_size=USUAL.sequences)
    total = FULL_PASSING_BYTES if bench.full else PASSING_BYTES
    round_bytes = ROUND_GROUPS * len(json_group(USUAL, seed=0))
    rounds = max(10, total // round_bytes)
    megabytes = []
    for _ in range(0 if bench.tiny else FILLING_BYTES // round_bytes):
        _pass_once(rolldeck, load, env_id)
    for number in range(2 if bench.tiny else rounds):
        _pass_once(rolldeck, load, env_id)
        if number % max(1, rounds // 10) == 0 or number == rounds - 1:
            megabytes.append(round(memory_bytes(rolldeck) / MEGABYTE, 1))
    third = max(1, len(megabytes) // 3)
    grown = median(megabytes[-third:]) / median(megabytes[1 : third + 1])
    bench.say(f"  {total / 1e9:g} GB through: {megabytes} MB")
    return {
        "passed_gb": total / 1e9,
        "passing_mb": megabytes,
        "passing_growth": round(grown, 3),
        "parts_mb": {
            part: round(size / MEGABYTE, 1) for part, size in rolldeck.memory_bytes().items()
        },
    }


ROW = Row(
    name="P11",
    measure="server memory per queued group",
    peer="Atropos keeps Python lists",
    unit="MB",
    better="less",
    mark=Target(
        words="0 (≤ 0.01), and flat (within 10 %) while gigabytes pass",
        limits=(Limit(figure="ours", at_most=0.01), Limit(figure="passing_growth", at_most=1.1)),
    ),
    goal=Target(
        words="0 (≤ 0.001), and flat (within 5 %)",
        limits=(Limit(figure="ours", at_most=0.001), Limit(figure="passing_growth", at_most=1.05)),
    ),
    run=run,
)
