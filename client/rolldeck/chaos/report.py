"""Reports of campaigns: one in JSON for each seed, and a page that adds all of a folder up."""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rolldeck.chaos.results import Result

PREFIX: Final = "chaos-report-"
BEGIN: Final = "<!-- campaigns: make chaos writes from here -->"
END: Final = "<!-- campaigns: to here -->"


def write_report(folder: Path, result: Result) -> str:
    """Write `chaos-report-<seed>.json` and the totals; return the text for the terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = "" if result.server == "Rolldeck" else "control-"
    content = msgspec.json.format(msgspec.json.encode(result), indent=1)
    (folder / f"{PREFIX}{kind}{result.seed}.json").write_bytes(content)
    (folder / "chaos-report.md").write_text(totals(results_of(folder)), encoding="utf-8")
    left_out = [f"not injected: {reason}" for reason in result.not_injected]
    return "\n".join([claim([result]), "", *table([result]), "", *left_out, *violations(result)])


def results_of(folder: Path) -> list[Result]:
    """Return the results of all campaigns of a folder."""
    paths = sorted(folder.glob(f"{PREFIX}*.json"))
    return [msgspec.json.decode(path.read_bytes(), type=Result) for path in paths]


def publish(folder: Path, kept: Path, page: Path) -> None:
    """Copy the reports of a folder to those kept, and write the totals of these on a page.

    The totals replace the marked block of the page.
    """
    kept.mkdir(parents=True, exist_ok=True)
    for report in folder.glob(f"{PREFIX}*.json"):
        shutil.copyfile(report, kept / report.name)
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{page} has no block between {BEGIN} and {END}")
    text = totals(results_of(kept))
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def totals(results: Sequence[Result]) -> str:
    """Return the numbers of all campaigns as Markdown."""
    own = [each for each in results if each.server == "Rolldeck"]
    others = [each for each in results if each.server != "Rolldeck"]
    lines = []
    if own:
        commits = ", ".join(sorted({each.commit or "unknown" for each in own}))
        machines = "; ".join(sorted({each.machine for each in own}))
        dates = " to ".join(
            sorted({min(each.date for each in own), max(each.date for each in own)})
        )
        lines += [f"{claim(own)}. {machines}; commits {commits}; {dates}.", ""]
        lines += [*table(own), ""]
        reasons = sorted(set.intersection(*({*each.not_injected} for each in own)))
        lines += [f"Not injected: {'; '.join(reasons)}.", ""] if reasons else []
    if others:
        lines += ["| server | faults | accepted groups | lost | doubled |", "|---|---|---|---|---|"]
        for server in sorted({each.server for each in results}, reverse=True):
            same = [each for each in results if each.server == server]
            faults = sum(len(each.injected) for each in same)
            counts = (
                sum(getattr(each, n) for each in same) for n in ("accepted", "lost", "doubled")
            )
            lines += [f"| {server} | {faults:,} | " + " | ".join(f"{n:,}" for n in counts) + " |"]
        lines += [""]
    lines += [f"- seed {each.seed}: {line}" for each in own for line in violations(each)]
    return "\n".join(lines).rstrip() + "\n"


def claim(results: Sequence[Result]) -> str:
    """Return the numbers of groups, faults and violations in one sentence."""
    faults = [fault for each in results for fault in each.injected]
    kinds = {name for fault in faults for name in fault.name.split(" + ")}
    worst = max((fault.recovery_seconds for fault in faults), default=0.0)
    of_fleets = [fault.fleet_seconds for fault in faults if fault.fleet_seconds is not None]
    fleets = f", and fleets after at most {max(of_fleets):.1f} s" if of_fleets else ""
    seeds = ", ".join(str(each.seed) for each in results)
    minutes = sum(each.seconds for each in results) / 60
    return (
        f"{sum(each.accepted for each in results):,} accepted groups and "
        f"{sum(each.fragments for each in results):,} fragments, {len(faults)} faults of "
        f"{len(kinds)} kinds in {minutes:.1f} minutes (seeds {seeds}): "
        f"{sum(len(each.violations) for each in results)} violations; all runs accepted groups "
        f"again after at most {worst:.1f} s{fleets}"
    )


def table(results: Iterable[Result]) -> list[str]:
    """Return the worst recovery of each fault as a table; pairs count for both of their faults."""
    alone: defaultdict[str, list[float]] = defaultdict(list)
    paired: defaultdict[str, list[float]] = defaultdict(list)
    limits: dict[str, float] = {}
    for fault in (fault for each in results for fault in each.injected):
        names = fault.name.split(" + ")
        if len(names) == 1:
            limits[fault.name] = fault.limit_seconds
        for name in names:
            (alone if len(names) == 1 else paired)[name].append(fault.recovery_seconds)
    lines = [
        "| fault | alone | worst recovery, s | limit, s | in pairs | worst recovery, s |",
        "|---|---|---|---|---|---|",
    ]
    for name in sorted({*alone, *paired}):
        limit = f"{limits[name]:.0f}" if name in limits else ""
        cells = [
            f"{len(times)} | {max(times):.1f}" if times else "0 | "
            for times in (alone.get(name), paired.get(name))
        ]
        lines.append(f"| {name} | {cells[0]} | {limit} | {cells[1]} |")
    return lines


def violations(result: Result) -> list[str]:
    """Return a line for each broken rule."""
    return [f"{each.rule} [{each.run}]: {each.text}" for each in result.violations]
