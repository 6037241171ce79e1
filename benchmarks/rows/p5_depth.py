"""P5: cost of a batch and of a poll, by the length of the queue."""

import contextlib
import time
from statistics import median

from benchmarks.bench import Bench, Figures, Row
from benchmarks.figures import Limit, Paired, Target, in_turn
from benchmarks.filling import SHARED_PAYLOADS, SMALL, fill_by_copying, push_small
from benchmarks.http_client import Line, request_bytes
from benchmarks.load import latencies
from benchmarks.rolldeck_server import TOKEN, RolldeckServer
from rolldeck.batches import Batch
from rolldeck.trainer import Trainer
from rolldeck.wire import BATCH_TYPE

SHORT = 1_000
DEPTHS = (10_000, 100_000, 1_000_000)
PEER_DEPTHS = (1_000, 10_000, 50_000)
BATCH_SEQUENCES = 64
BATCHES = 25
POLLS = 50


def run(bench: Bench) -> Figures:
    depths = DEPTHS[:1] if bench.tiny else DEPTHS
    with contextlib.ExitStack() as servers:
        short = servers.enter_context(bench.rolldeck(settings=SHARED_PAYLOADS))
        long = servers.enter_context(bench.rolldeck(settings=SHARED_PAYLOADS))
        short_env, long_env = _begin(short), _begin(long)
        fill_by_copying(short, groups=SHORT)
        growth = []
        for depth in depths:
            fill_by_copying(long, groups=depth)
            growth.append(_beside(bench, short, long, depth, (short_env, long_env)))
        ours = median(1000 * s for s in latencies(long.url, _poll(long_env), count=POLLS))
    deepest = growth[-1]
    figures: Figures = {
        "growth": growth,
        "forming_growth": deepest["forming_ms"]["growth"],
        "status_env_growth": deepest["status_env_ms"]["growth"],
    }
    if bench.is_alone:
        return figures | {"ours": ours, "peer": None, "ratio": None, "pairs": bench.pairs}
    return figures | _of_peer(bench, ours)


def _begin(rolldeck: RolldeckServer) -> int:
    env_id = rolldeck.begin(batch_size=BATCH_SEQUENCES, group_size=SMALL.sequences)
    push_small(rolldeck, env_id=env_id, groups=1)
    return env_id


def _beside(
    bench: Bench, short: RolldeckServer, long: RolldeckServer, depth: int, env_ids: tuple[int, int]
) -> Figures:
    """Return both costs at `depth` and those of the short queue, measured in turn."""
    forming = in_turn(
        bench.pairs,
        ours=lambda: forming_milliseconds(long),
        peer=lambda: _forming_short(short),
        better="less",
    )
    polls = in_turn(
        bench.pairs,
        ours=lambda: 1000 * median(latencies(long.url, _poll(env_ids[1]), count=POLLS)),
        peer=lambda: 1000 * median(latencies(short.url, _poll(env_ids[0]), count=POLLS)),
        better="less",
    )
    figures: Figures = {
        "queued": depth,
        "forming_ms": _grown(forming),
        "status_env_ms": _grown(polls),
    }
    bench.say(
        f"  {depth:,} queued: forming {figures['forming_ms']['growth']:.2f}× of {SHORT:,},"
        f" status-env {figures['status_env_ms']['growth']:.2f}×"
    )
    return figures


def _grown(taken: Paired) -> Figures:
    """Return the cost at depth, that of the short queue, and the median of their ratios."""
    figures = taken.as_json()
    return {
        "at_depth": figures["ours"],
        "at_1000": figures["peer"],
        "growth": round(1 / figures["ratio"], 3),
    }


def forming_milliseconds(rolldeck: RolldeckServer) -> float:
    """Return the median time to form, lease and send a batch."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": BATCH_TYPE}
    ask = request_bytes(
        "POST", "/api/v1/runs/default/batches/next", b'{"wait_seconds":0}', headers=headers
    )
    taken = []
    with Trainer(rolldeck.url, "default", TOKEN) as trainer, Line(rolldeck.url) as line:
        trainer.register(resume=True)
        for _ in range(BATCHES):
            began = time.perf_counter()
            answer = line.ok(ask)
            taken.append(time.perf_counter() - began)
            trainer.ack(Batch.decode(bytes(answer.body)))
    return 1000 * median(taken)


def _forming_short(rolldeck: RolldeckServer) -> float:
    """Return the time to form batches from the short queue, and refill the queue."""
    taken = forming_milliseconds(rolldeck)
    fill_by_copying(rolldeck, groups=SHORT)
    return taken


def _poll(env_id: int) -> bytes:
    return request_bytes("GET", "/status-env", b'{"env_id": %d}' % env_id)


def _of_peer(bench: Bench, ours: float) -> Figures:
    """Return the peer's poll at its own depths, and ours at a million next to its deepest."""
    with bench.atropos() as peer:
        env_id = peer.begin(batch_size=BATCH_SEQUENCES, group_size=SMALL.sequences)
        growth = []
        for depth in PEER_DEPTHS:
            push_small(peer, env_id=env_id, groups=depth - peer.queue_size())
            taken = [1000 * s for s in latencies(peer.url, _poll(env_id), count=POLLS)]
            growth.append({"queued": depth, "status_env_ms": round(median(taken), 3)})
            bench.say(f"  peer, {depth:,} queued: {growth[-1]['status_env_ms']:g} ms a poll")
    deepest = growth[-1]["status_env_ms"]
    return Paired(ours=[ours], peer=[deepest], better="less").as_json() | {"peer_growth": growth}


ROW = Row(
    name="P5",
    measure="a poll of /status-env with 1,000,000 groups queued (peer: 50,000)",
    peer="Atropos scans its queue",
    unit="ms",
    better="less",
    mark=Target(
        words="forming and polls within 20 % of those at 1,000",
        limits=(
            Limit(figure="forming_growth", at_most=1.2),
            Limit(figure="status_env_growth", at_most=1.2),
        ),
    ),
    goal=Target(
        words="flat (within 5 %)",
        limits=(
            Limit(figure="forming_growth", at_most=1.05),
            Limit(figure="status_env_growth", at_most=1.05),
        ),
    ),
    run=run,
)
