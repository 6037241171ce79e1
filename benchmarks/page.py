"""Write the measured figures into docs/explanation/performance.md, between its markers."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks import page_section
from benchmarks.machine import stated
from benchmarks.results import met, number, ratio

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"
BEGIN: Final = "<!-- figures: make bench writes from here -->"
END: Final = "<!-- figures: to here -->"
QUIET_LOAD: Final = 1.0


def renewed(page: str, results: Mapping[str, Any]) -> str:
    """Return the page with the figures of `results` between its markers.

    Raises:
        ValueError: If the page has no markers.
    """
    return page_section.renewed(page, written(results), begin=BEGIN, end=END)


def written(results: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    rows, extras = results["rows"], results["extras"]
    parts = [
        measured({**rows, **extras}),
        _busy(rows),
        _table(rows),
        _floor(rows, extras.get("floor", {})),
        _growth(rows),
        _depth(rows.get("P5", {})),
        _healing(extras.get("healing", {})),
        _extras(extras),
    ]
    return "\n\n".join(part for part in parts if part)


def measured(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Return machine, commit and date of all figures, and which they are if they differ."""
    names: dict[str, list[str]] = {}
    for name, row in figures.items():
        names.setdefault(stated(row), []).append(name)
    if len(names) == 1:
        return f"Measured on: {next(iter(names))}"
    return "\n".join(f"- {', '.join(several)}: {where}" for where, several in names.items())


def _busy(rows: Mapping[str, Any]) -> str:
    """Name the rows that were measured while the machine had other work."""
    loads = {name: row["load_before"] for name, row in rows.items() if row.get("load_before")}
    busy = [f"{name} {load}" for name, load in loads.items() if load > QUIET_LOAD]
    if not busy:
        return ""
    return (
        "The machine had other work while these were measured (load before): "
        f"{', '.join(busy)}. Of them, only ratios and processor times mean something."
    )


def _table(rows: Mapping[str, Any]) -> str:
    lines = [
        "| | measure | ours | peer | unit | ratio, median of pairs (min–max) | mark | reached |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        cells = (
            name,
            f"{row['measure']}<br>beside: {row['peer_is']}",
            number(row["ours"]),
            number(row["peer"]),
            row["unit"],
            ratio(row),
            row.get("mark", "–"),
            met(row),
        )
        lines.append(f"| {' | '.join(cells)} |")
        lines += [
            f"| | … {_words(key)} | {number(more['ours'])} | {number(more['peer'])} "
            f"| {row['unit']} | {ratio(more)} | | |"
            for key, more in row.items()
            if isinstance(more, dict) and "spread" in more
        ]
    return "\n".join(lines)


FLOORS: Final = {"P1": "groups/s", "P2": "batches/s", "P4": "groups/s"}


def _floor(rows: Mapping[str, Any], floor: Mapping[str, Any]) -> str:
    """Return the limits of the machine, and each row as a share of its own."""
    if not floor:
        return ""
    names = ("receive", "parse", "write", "commit")
    parts = ", ".join(f"{name} {number(floor[f'{name}_ms'])}" for name in names)
    lines = [
        "### What the machine permits (`floor`)",
        "",
        f"One client, a socket server without a framework; parts of a push in ms: {parts}.",
        "",
        "| | floor | ours | share | peer |",
        "|---|---|---|---|---|",
    ]
    for name, unit in FLOORS.items():
        if name not in rows:
            continue
        limit, row = 1000 / floor[f"{name}_ms"], rows[name]
        shares = [f"{100 * row[side] / limit:.0f} %" for side in ("ours", "peer") if row[side]]
        lines.append(
            f"| {name} | {number(round(limit, 1))} {unit} | {number(row['ours'])} | "
            f"{' | '.join(shares)} |"
        )
    return "\n".join(lines)


def _growth(rows: Mapping[str, Any]) -> str:
    """Return the same figures for 4 and 16 times the work."""
    lines = []
    for name, row in rows.items():
        lines += [
            f"| {name} | {more['work']} | {number(more['ours'])} | {number(more['peer'])} "
            f"| {row['unit']} | {ratio(more)} |"
            for more in row.get("growth", [])
            if "work" in more
        ]
    if not lines:
        return ""
    heading = "| | work | ours | peer | unit | ratio (min–max) |\n|---|---|---|---|---|---|"
    return "\n".join(["### How cost grows", "", heading, *lines])


def _depth(row: Mapping[str, Any]) -> str:
    """Return the cost of a batch and of a poll, by the length of the queue."""
    if not row:
        return ""
    lines = [
        "### How the length of the queue matters (P5)",
        "",
        "| groups queued | forming, of that at 1,000 | a poll, of that at 1,000 | poll (ms) |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {more['queued']:,} | {more['forming_ms']['growth']:.2f}× "
        f"| {more['status_env_ms']['growth']:.2f}× | {number(more['status_env_ms']['at_depth'])} |"
        for more in row.get("growth", [])
    ]
    lines += [
        f"| peer, {more['queued']:,} | – | – | {number(more['status_env_ms'])} |"
        for more in row.get("peer_growth", [])
    ]
    return "\n".join(lines)


def _healing(figures: Mapping[str, Any]) -> str:
    """Return the recovery time of every part that was killed."""
    if not figures:
        return ""
    medians = figures["median"]
    lines = [
        "### Recovery after SIGKILL",
        "",
        f"`healing`, {figures['kills']} kills of each part:",
        "",
        "| killed part | median, s | worst, s |",
        "|---|---|---|",
    ]
    lines += [
        f"| {_words(name.removesuffix('_s'))} | {value} | {figures[name]} |"
        for name, value in medians.items()
    ]
    return "\n".join([*lines, "", f"Target: {figures['mark']}. Reached: {met(figures)}."])


def _extras(extras: Mapping[str, Any]) -> str:
    """Name the other measurements, whose figures are in the file of results."""
    lines = [
        f"| `{name}` | {figures['measure']} |"
        for name, figures in extras.items()
        if name not in {"floor", "healing"}
    ]
    if not lines:
        return ""
    heading = "`benchmarks/results/latest.json` also has the figures of these rows:"
    return "\n".join([heading, "", "| row | measures |", "|---|---|", *lines])


def _words(key: str) -> str:
    return re.sub(r" (ms|s)$", r" (\1)", key.replace("_", " "))


def renew(results: Mapping[str, Any], path: Path = PAGE) -> None:
    """Update the page with these figures."""
    path.write_text(renewed(path.read_text(encoding="utf-8"), results), encoding="utf-8")
