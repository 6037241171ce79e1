"""Report of a campaign: JSON, and a page with the claim and the worst recovery of each fault."""

from collections import defaultdict
from pathlib import Path

import msgspec

from rolldeck.chaos.campaign import Result


def write_report(folder: Path, result: Result) -> str:
    """Write `report-<seed>.json` and return the text for the terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(result), indent=1)
    (folder / f"report-{result.seed}.json").write_bytes(content)
    return "\n".join([claim(result), "", *table(result), "", *violations(result)])


def claim(result: Result) -> str:
    """Return the numbers of groups, faults and violations in one sentence."""
    worst = max((fault.recovery_seconds for fault in result.injected), default=0.0)
    return (
        f"{result.accepted:,} accepted groups ({result.attempts:,} attempts, {result.served:,} "
        f"served) and {len(result.injected)} faults in {result.seconds / 60:.1f} minutes, seed "
        f"{result.seed}: {len(result.violations)} violations; groups were accepted again after at "
        f"most {worst:.1f} s"
    )


def table(result: Result) -> list[str]:
    """Return the worst recovery of each fault as a table."""
    rows: defaultdict[str, list[float]] = defaultdict(list)
    limits = {}
    for fault in result.injected:
        rows[fault.name].append(fault.recovery_seconds)
        limits[fault.name] = fault.limit_seconds
    lines = ["| fault | times | worst recovery, s | limit, s |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {len(times)} | {max(times):.1f} | {limits[name]:.0f} |"
        for name, times in sorted(rows.items())
    ]
    return lines


def violations(result: Result) -> list[str]:
    """Return a line for each broken rule."""
    return [f"{each.rule} [{each.run}]: {each.text}" for each in result.violations]
