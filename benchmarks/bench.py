"""Test bench of the rows: servers, load, paired measurements, and an optional profiler."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import figures
from benchmarks.figures import Better, Target
from benchmarks.load import OtherProcess, other_process
from benchmarks.machine import describe_server
from benchmarks.peers import running_atropos
from benchmarks.profiler import Profiler
from benchmarks.rolldeck_server import AtroposApi, RolldeckServer, running_rolldeck

MOST_GROWTH_PAIRS: Final = 3
Figures = dict[str, Any]
PrintLine = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Bench:
    """Settings of one run of the benchmarks.

    Attributes:
        pairs: Number of measurements of each side, in turn.
        full: Use the full sizes even if they take many minutes.
        tiny: Use minimal sizes, which only test the benchmarks.
        web_workers: Web processes of our server; None for the default.
        alone: Skip the peer; nothing is saved.
        profiler: Profiler of our web processes; skips the peer too.
        say: Writes one line of progress.
        prepare: Creates the data folder of PostgreSQL; None lets each server create its own.
    """

    pairs: int = 5
    full: bool = False
    tiny: bool = False
    web_workers: int | None = None
    alone: bool = False
    profiler: Profiler | None = None
    say: PrintLine = print
    prepare: Callable[[Path], None] | None = None
    machine: str = field(default="", init=False)
    _used: dict[str, dict[str, list[float]]] = field(default_factory=dict, init=False)

    @contextlib.contextmanager
    def rolldeck(self, *, settings: Mapping[str, str] | None = None) -> Iterator[RolldeckServer]:
        """Start a new server of ours, with some settings changed."""
        with running_rolldeck(
            web_workers=self.web_workers, settings=settings, prepare=self.prepare
        ) as rolldeck:
            self.machine = describe_server(rolldeck.postgres_version(), rolldeck.var)
            if self.profiler is not None:
                self.profiler.watch(rolldeck.web_pids)
            yield rolldeck

    @contextlib.contextmanager
    def beside_atropos(self) -> Iterator[tuple[RolldeckServer, AtroposApi, OtherProcess]]:
        """Start our server, the stock server, and a process that loads either."""
        with contextlib.ExitStack() as parts:
            rolldeck = parts.enter_context(self.rolldeck())
            peer = rolldeck if self.is_alone else parts.enter_context(running_atropos())
            yield rolldeck, peer, parts.enter_context(other_process())

    def atropos(self) -> AbstractContextManager[AtroposApi]:
        """Start a new stock server."""
        return running_atropos()

    @property
    def is_alone(self) -> bool:
        """Whether the peer is skipped."""
        return self.alone or self.profiler is not None

    @property
    def is_short(self) -> bool:
        """Whether the usual amount of work is enough: the growth of cost is not measured."""
        return self.tiny or self.profiler is not None

    @property
    def growth_pairs(self) -> int:
        """Pairs for rows that show the growth of a cost: large sizes take the peer minutes."""
        return min(self.pairs, MOST_GROWTH_PAIRS)

    @contextlib.contextmanager
    def metered(self, server: AtroposApi, *, per: int) -> Iterator[None]:
        """Record a server's processor time in the block, in ms for each of `per` units.

        On a shared machine this is more stable than elapsed time. A profiler samples only during
        these blocks.
        """
        watching = contextlib.nullcontext() if self.profiler is None else self.profiler.recording()
        before = server.cpu_seconds()
        with watching:
            yield
        side = self._used.setdefault("ours" if isinstance(server, RolldeckServer) else "peer", {})
        for part, seconds in server.cpu_seconds().items():
            side.setdefault(part, []).append(1000 * (seconds - before[part]) / per)

    def compare(
        self,
        what: str,
        *,
        ours: Callable[[], float],
        peer: Callable[[], float],
        better: Better,
        pairs: int | None = None,
    ) -> Figures:
        """Return the paired figures of one measure, after one discarded warm-up of each."""
        self._used.clear()
        pairs = pairs or self.pairs
        if not self.tiny:
            ours()
        if self.is_alone:
            return self._without_peer(what, ours, pairs)
        if not self.tiny:
            peer()
        taken = figures.in_turn(pairs, ours=ours, peer=peer, better=better)
        return self._report(what, taken.as_json())

    def _without_peer(self, what: str, ours: Callable[[], float], pairs: int) -> Figures:
        return self._report(what, figures.alone([ours() for _ in range(pairs)]))

    def _report(self, what: str, result: Figures) -> Figures:
        """Add the processor time to the figures, and show them."""
        words = f"  {what}: ours {result['ours']:g}"
        if result["ratio"] is not None:
            words += f", peer {result['peer']:g}, {result['ratio']:.2f}×"
        if self._used:
            result["cpu_ms"] = {
                side: {part: round(median(values), 3) for part, values in parts.items()}
                for side, parts in self._used.items()
            }
            words += "; CPU ms each: " + ", ".join(
                f"{side} {part} {value:g}"
                for side, parts in result["cpu_ms"].items()
                for part, value in parts.items()
            )
        self.say(words)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table.

    Attributes:
        name: Name in the design: P1 …
        measure: Description of the measure.
        peer: Name of the peer.
        unit: Unit of `ours` and `peer`.
        better: Whether more or less is better.
        mark: Required result.
        goal: Desired result.
        run: Measures; returns figures with at least ours, peer, ratio, pairs and spread.
    """

    name: str
    measure: str
    peer: str
    unit: str
    better: Better
    mark: Target | None
    goal: Target | None
    run: Callable[[Bench], Figures]

    def result(self, bench: Bench) -> Figures:
        """Return the figures of this row with their interpretation."""
        taken = self.run(bench)
        judged = {
            "measure": self.measure,
            "peer_is": self.peer,
            "unit": self.unit,
            "better": self.better,
            **taken,
        }
        if self.mark is not None:
            judged |= {"mark": self.mark.words, "mark_met": self.mark.is_met(taken)}
        if self.goal is not None:
            judged |= {"goal": self.goal.words, "goal_met": self.goal.is_met(taken)}
        return judged
