"""P7: durable env steps per second of a whole fleet, compared with loops that keep nothing.

Both sides have the same number and kind of environments, the same network and two cores, in their
best layout. Ours is complete: one Ray actor with the policy and all environments, which leaves the
second core for fragments sent over HTTP and acknowledged durably, PostgreSQL, and a trainer that
acknowledges every batch. The bare loops discard their data, with one process and half of the
environments on each core; the fleet is paused while they run.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench, Figures, Row
from benchmarks.benchmark_fleet import BenchmarkFleet, Shape, fleet_on
from benchmarks.figures import Limit, Target
from benchmarks.paced import Paced, paced
from benchmarks.peers import RLLIB

CORES: Final = 2
USUAL_ENVS: Final = 64
SECONDS: Final = 6.0
NATIVE_PAIRS: Final = 3
"""Pairs with CartPole's own vectors, which have no mark."""
TINY_SECONDS: Final = 2.0
RUNNER: Final = str(Path(__file__).parents[1] / "rllib_runner.py")
WITH_RAY: Final = {"RAY_ADDRESS": ""}
"""With an empty address the server starts its own cluster."""


def run(bench: Bench) -> Figures:
    """Measure the usual number of environments; in full, others and one worker per core too."""
    usual = at(bench, Shape(workers=1, envs=USUAL_ENVS))
    if not bench.full or bench.is_alone:
        return usual
    others = [Shape(workers=1, envs=envs) for envs in (USUAL_ENVS // 4, USUAL_ENVS * 4)]
    others.append(Shape(workers=CORES, envs=USUAL_ENVS // CORES))
    growth = [{"work": _words(shape), **at(bench, shape, is_whole=False)} for shape in others]
    return usual | {"growth": growth}


def at(bench: Bench, shape: Shape, *, is_whole: bool = True) -> Figures:
    """Return the figures of a fleet with this layout; whole: compared with every loop."""
    envs_a_core = shape.workers * shape.envs // CORES
    with ExitStack() as parts:
        rolldeck = parts.enter_context(bench.rolldeck(settings=WITH_RAY))
        fleet = parts.enter_context(fleet_on(rolldeck, shape))
        if bench.is_alone:
            return _compared(bench, _words(shape), fleet, None)
        sync = parts.enter_context(_bare(envs_a_core, "sync"))
        figures = _compared(bench, f"{_words(shape)}, Gymnasium's sync loop", fleet, sync)
        figures["cpu_us_a_step"] = _rounded(fleet.cpu_microseconds) | {
            "bare": round(sync.cpu_microseconds, 2)
        }
        if not is_whole:
            return figures
        rllib = parts.enter_context(_rllib(envs_a_core))
        beside = _compared(bench, "RLlib's EnvRunner", fleet, rllib)
        figures["rllib"] = beside
        figures["rllib_ratio"] = beside["ratio"]
        native = parts.enter_context(_bare(envs_a_core, "vector_entry_point"))
        figures["native_loop"] = _compared(
            bench, "CartPole's own vectors", fleet, native, pairs=NATIVE_PAIRS
        )
        figures["native_ratio"] = figures["native_loop"]["ratio"]
        return figures


def _words(shape: Shape) -> str:
    return f"{shape.workers} × {shape.envs} envs"


def _compared(
    bench: Bench, what: str, fleet: BenchmarkFleet, peer: Paced | None, *, pairs: int | None = None
) -> Figures:
    seconds = TINY_SECONDS if bench.tiny else SECONDS

    def peer_rate() -> float:
        assert peer is not None  # noqa: S101 called only with a peer
        fleet.pause()
        try:
            return peer.rate(seconds)
        finally:
            fleet.resume()

    figures = bench.compare(
        what,
        ours=lambda: fleet.rate(seconds),
        peer=peer_rate,
        better="more",
        pairs=min(pairs or bench.pairs, bench.pairs),
    )
    used = ", ".join(
        f"{part} {value:g}" for part, value in _rounded(fleet.cpu_microseconds).items()
    )
    theirs_used = f"; peer {peer.cpu_microseconds:.2f}" if peer else ""
    bench.say(f"  CPU µs for each env step: {used}{theirs_used}")
    return figures


@contextmanager
def _bare(envs: int, mode: str) -> Iterator[Paced]:
    command = [sys.executable, "-m", "benchmarks.bare_loop", str(envs), mode]
    with paced(command, count=CORES) as loops:
        yield loops


@contextmanager
def _rllib(envs: int) -> Iterator[Paced]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(RLLIB.python()), RUNNER, str(envs)]
    with paced(command, count=CORES, environment=own) as runners:
        yield runners


def _rounded(parts: dict[str, float]) -> dict[str, float]:
    """Return the parts with a measurable cost."""
    return {part: value for part, value in parts.items() if value >= 0.01}


ROW = Row(
    name="P7",
    measure="fleet env steps on CartPole-v1, batched inference, fragments acknowledged durably",
    peer="the same policy stepping gymnasium.make_vec (sync), a process on each core, nothing else",
    unit="steps/s",
    better="more",
    mark=Target(
        words="≥ 85 % of the bare loop, ≥ 70 % of native vectors, ≥ 1.5× RLlib's EnvRunner",
        limits=(
            Limit(figure="ratio", at_least=0.85),
            Limit(figure="native_ratio", at_least=0.7),
            Limit(figure="rllib_ratio", at_least=1.5),
        ),
    ),
    goal=Target(
        words="≥ 95 %, ≥ 4×",
        limits=(Limit(figure="ratio", at_least=0.95), Limit(figure="rllib_ratio", at_least=4.0)),
    ),
    run=run,
)
