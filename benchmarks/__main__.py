"""Run the benchmarks: `python -m benchmarks --rows P1,P2 --pairs 5`."""

import argparse
import os
import signal
import sys
import time
from typing import Final

from rich.console import Console

from benchmarks import page, profiler, results
from benchmarks.bench import Bench, Row
from benchmarks.machine import provenance
from benchmarks.peers import PeerMissing
from benchmarks.rows import (
    extras,
    floor,
    healing,
    p1_push,
    p2_batch,
    p3_wait,
    p4_binary,
    p5_depth,
    p6_delivery,
    p7_fleet,
    p8_weights,
    p9_replay,
    p10_live,
    p11_memory,
    p12_generation,
    prefetch,
    short_groups,
    web_processes,
)

ROWS: Final[tuple[Row, ...]] = (
    p1_push.ROW,
    p2_batch.ROW,
    p3_wait.ROW,
    p4_binary.ROW,
    p5_depth.ROW,
    p6_delivery.ROW,
    p7_fleet.ROW,
    p8_weights.ROW,
    p9_replay.ROW,
    p10_live.ROW,
    p11_memory.ROW,
    p12_generation.ROW,
    short_groups.ROW,
)
WIDTH_IN_A_FILE: Final = 150
EXTRAS: Final[tuple[Row, ...]] = (
    *extras.ROWS,
    floor.ROW,
    healing.ROW,
    prefetch.ROW,
    web_processes.ROW,
)


def main() -> int:
    """Measure the requested rows; return 1 if a row could not be measured."""
    arguments = _arguments()
    # After SIGTERM a run still stops its servers and removes their folders.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_IN_A_FILE
    bench = Bench(
        pairs=arguments.pairs,
        full=arguments.full,
        web_workers=arguments.workers,
        alone=arguments.alone,
        profiler=profiler.Profiler() if arguments.profile else None,
        say=console.print,
    )
    known = {row.name: row for row in (*ROWS, *EXTRAS)}
    names = arguments.rows or list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        console.print(f"unknown row {', '.join(unknown)}; choose from {', '.join(known)}")
        return 2
    missed = [name for name in names if not _measure(known[name], bench, console)]
    if not bench.is_alone:
        rows = results.read()
        page.renew(rows)
        results.show(rows, console)
    return 1 if missed else 0


def _measure(row: Row, bench: Bench, console: Console) -> bool:
    """Measure one row and save its figures or its profile; return whether it was measured."""
    console.print(f"[bold]{row.name}[/bold] {row.measure}")
    began, load_before = time.monotonic(), round(os.getloadavg()[0], 1)
    try:
        figures = row.result(bench)
    except PeerMissing as missing:
        console.print(f"  not measured, the peer cannot be installed: {missing}")
        return False
    console.print(f"  took {time.monotonic() - began:.0f} s")
    if bench.profiler is not None:
        _write_profile(row, bench.profiler, console)
        return True
    if bench.is_alone:
        return True
    kind = "rows" if row in ROWS else "extras"
    before = results.read()
    results.write(
        results.merge(
            before,
            kind=kind,
            name=row.name,
            figures=figures | provenance(bench.machine) | {"load_before": load_before},
        )
    )
    return True


def _write_profile(row: Row, taken: profiler.Profiler, console: Console) -> None:
    path = results.FOLDER / f"profile-{row.name}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(profiler.as_text(taken.stacks, title=f"{row.name} {row.measure}"))
    taken.stacks.clear()
    console.print(f"  profile of the web process: {path}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rows", type=_words, help="names such as P1,P2; default: all")
    parser.add_argument("--pairs", type=int, default=5, help="number of measurements of each side")
    parser.add_argument("--workers", type=int, help="number of web processes of our server")
    parser.add_argument("--full", action="store_true", help="include sizes that take many minutes")
    parser.add_argument("--alone", action="store_true", help="skip the peer; saves nothing")
    parser.add_argument("--profile", action="store_true", help="profile our web process")
    return parser.parse_args()


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


if __name__ == "__main__":
    sys.exit(main())
