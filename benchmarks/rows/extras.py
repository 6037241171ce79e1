"""Extras: other costs that must stay low while the buffer is busy."""

import contextlib
import time
from collections.abc import Callable, Iterator
from statistics import median

from benchmarks.bench import Bench, Figures, Row
from benchmarks.bodies import USUAL, Size
from benchmarks.figures import percentile
from benchmarks.http_client import request_bytes
from benchmarks.load import (
    OtherProcess,
    Push,
    get_batches,
    latencies,
    other_process,
    push_json,
    read_again,
)
from benchmarks.rolldeck_server import TOKEN, AtroposApi, RolldeckServer
from benchmarks.rows.p2_batch import LARGE, fill
from benchmarks.rows.p5_depth import forming_milliseconds
from benchmarks.waiting import wait_for_batches
from rolldeck.trainer import Trainer

LARGE_SEQUENCES = 256
WAITERS = 500
BEARER = {"Authorization": f"Bearer {TOKEN}"}
LIVE = request_bytes("GET", "/healthz/live")
RUN = request_bytes("GET", "/api/v1/runs/default", headers=BEARER)
OLD_SNAPSHOT_SECONDS = 60.0
CHURN_GROUPS = 64


def percentiles(seconds: list[float]) -> Figures:
    """Return p50, p99 and the largest, in milliseconds."""
    taken = [1000 * duration for duration in seconds]
    figures = {
        "p50_ms": percentile(taken, 50),
        "p99_ms": percentile(taken, 99),
        "max_ms": max(taken),
    }
    return {name: round(value, 3) for name, value in figures.items()} | {"samples": len(taken)}


# --- Latency of other calls while a large batch is being sent ---


def status_env_under_load(bench: Bench) -> Figures:
    with bench.beside_atropos() as (rolldeck, peer, load):
        rolldeck_polls = _polls_while_serving(rolldeck, load, again=True)
        bench.say(f"  ours: {rolldeck_polls}")
        if bench.is_alone:
            return {"ours": rolldeck_polls}
        peer_polls = _polls_while_serving(peer, load, again=False)
        bench.say(f"  peer: {peer_polls}")
    return {"ours": rolldeck_polls, "peer": peer_polls}


def _polls_while_serving(server: AtroposApi, load: OtherProcess, *, again: bool) -> Figures:
    """Poll every 5 ms while a batch of 256 × 8,192 is read; ours is read repeatedly for 5 s."""
    fill(server, load, sequences=LARGE_SEQUENCES, size=LARGE, batches=1)
    poll = request_bytes("GET", "/status-env", b'{"env_id":0}')
    alone = percentiles(latencies(server.url, poll, count=200))
    finished = (
        load.start(read_again, server.url, 5.0) if again else load.start(get_batches, server.url, 1)
    )
    taken: list[float] = []
    while not finished.done():
        taken += latencies(server.url, poll, count=20, every_seconds=0.005)
    served = finished()
    batches = served if again else 1
    return {"alone": alone, "while_serving": percentiles(taken), "batches_served": batches}


# --- 500 waiting trainers ---


def waiters(bench: Bench) -> Figures:
    with bench.rolldeck() as rolldeck, other_process() as load:
        rolldeck.begin(batch_size=64, group_size=8)
        with Trainer(rolldeck.url, "default", TOKEN) as trainer:
            trainer.register(resume=True)
        before = _lives(rolldeck)
        finished = load.start(wait_for_batches, rolldeck.url, waiters=WAITERS, seconds=25.0)
        time.sleep(8.0)
        during = _lives(rolldeck)
        outcome = finished()
    bench.say(f"  none wait: {before}\n  {WAITERS} wait: {during}\n  {outcome}")
    return {"no_waiters": before, "all_wait": during, **outcome}


def _lives(rolldeck: RolldeckServer) -> Figures:
    with rolldeck.sql() as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
    return {
        "heartbeat": percentiles(latencies(rolldeck.url, LIVE, count=200)),
        "authenticated": percentiles(latencies(rolldeck.url, RUN, count=200)),
        "database_connections": row[0] if row else None,
    }


# --- A long open transaction ---


def old_snapshot(bench: Bench) -> Figures:
    with bench.rolldeck() as rolldeck, other_process() as load:
        env_id = rolldeck.begin(batch_size=64, group_size=8)
        seconds = OLD_SNAPSHOT_SECONDS if bench.full else OLD_SNAPSHOT_SECONDS / 3
        _churn(rolldeck, load, env_id, seconds)
        fresh = _costs(rolldeck, load, env_id)
        with _held_snapshot(rolldeck):
            _churn(rolldeck, load, env_id, seconds)
            old = _costs(rolldeck, load, env_id)
    bench.say(f"  without: {fresh}\n  with a snapshot {seconds:.0f} s old: {old}")
    return {
        "snapshot_seconds": seconds,
        "without": fresh,
        "with_old_snapshot": old,
        "push_growth": round(old["push_ms"] / fresh["push_ms"], 3),
        "forming_growth": round(old["forming_ms"] / fresh["forming_ms"], 3),
    }


@contextlib.contextmanager
def _held_snapshot(rolldeck: RolldeckServer) -> Iterator[None]:
    """Hold an idle transaction whose snapshot keeps every row version from now on."""
    with rolldeck.sql(autocommit=False) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM buffer_tally")
        yield


def _churn(rolldeck: RolldeckServer, load: OtherProcess, env_id: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        push = Push(url=rolldeck.url, size=SMALL, groups=8 * CHURN_GROUPS, clients=2, env_id=env_id)
        load.run(push_json, push)
        load.run(get_batches, rolldeck.url, CHURN_GROUPS)


def _costs(rolldeck: RolldeckServer, load: OtherProcess, env_id: int) -> Figures:
    """Return the median cost of a push and of forming a batch, in ms."""
    pushes = []
    for _ in range(5):
        push = Push(url=rolldeck.url, size=SMALL, groups=100, env_id=env_id)
        pushes.append(1000 * load.run(push_json, push) / 100)
    load.run(push_json, Push(url=rolldeck.url, size=SMALL, groups=200, env_id=env_id))
    return {
        "push_ms": round(median(pushes), 3),
        "forming_ms": round(forming_milliseconds(rolldeck), 3),
    }


SMALL = Size(sequences=8, tokens=64)


# --- Scans of metadata next to large payloads ---


def payload_size(bench: Bench) -> Figures:
    figures: Figures = {}
    groups = 16 if bench.tiny else 1_000
    for name, size in (("small", Size(sequences=8, tokens=8)), ("usual", USUAL)):
        with bench.rolldeck() as rolldeck, other_process() as load:
            env_id = rolldeck.begin(batch_size=64, group_size=8)
            push = Push(url=rolldeck.url, size=size, groups=groups, clients=4, env_id=env_id)
            load.run(push_json, push)
            figures[name] = {"payload": size.name, "scan_ms": _scan_milliseconds(rolldeck)}
    growth = figures["usual"]["scan_ms"] / figures["small"]["scan_ms"]
    bench.say(f"  {figures}: {growth:.2f}×")
    return figures | {"groups": groups, "growth": round(growth, 3)}


def _scan_milliseconds(rolldeck: RolldeckServer) -> float:
    taken = []
    with rolldeck.sql() as connection:
        connection.execute("VACUUM ANALYZE buffer_trajectorygroup")
        for _ in range(50):
            began = time.perf_counter()
            connection.execute("SELECT sum(tokens), max(score_max) FROM buffer_trajectorygroup")
            taken.append(1000 * (time.perf_counter() - began))
    return round(median(taken), 4)


def _row(name: str, measure: str, peer: str, run: Callable[[Bench], Figures]) -> Row:
    return Row(
        name=name,
        measure=measure,
        peer=peer,
        unit="ms",
        better="less",
        mark=None,
        goal=None,
        run=run,
    )


ROWS = (
    _row(
        "status_env_under_load",
        "/status-env while a batch of 256 × 8,192 is being served",
        "Atropos: everybody waits",
        status_env_under_load,
    ),
    _row("waiters", "other calls while 500 trainers wait", "–", waiters),
    _row("old_snapshot", "pushes and forming while a transaction stays open", "–", old_snapshot),
    _row("payload_size", "a scan of 1,000 groups' metadata, by payload size", "–", payload_size),
)
