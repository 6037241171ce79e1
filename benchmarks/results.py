"""Store the newest figures of every row in one file, and show them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

FOLDER: Final = Path(__file__).with_name("results")
LATEST: Final = FOLDER / "latest.json"
Results = dict[str, Any]


def read(path: Path = LATEST) -> Results:
    """Return the earlier figures; empty without a file."""
    if not path.is_file():
        return {"rows": {}, "extras": {}}
    document: Results = json.loads(path.read_text(encoding="utf-8"))
    return document


def merge(
    before: Mapping[str, Any], *, kind: str, name: str, figures: Mapping[str, Any]
) -> Results:
    """Return the results with one row (kind `rows`) or extra (kind `extras`) replaced."""
    kept = {part: {**before.get(part, {})} for part in ("rows", "extras")}
    kept[kind][name] = dict(figures)
    kept[kind] = {key: kept[kind][key] for key in sorted(kept[kind], key=_order)}
    return kept


def write(results: Mapping[str, Any], path: Path = LATEST) -> None:
    """Replace the file atomically."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    text = json.dumps(results, indent=2, ensure_ascii=False)
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)


def show(results: Mapping[str, Any], console: Console) -> None:
    """Print the table."""
    table = Table()
    for heading in ("", "measure", "ours", "peer", "unit", "ratio (min–max)", "mark", "met"):
        table.add_column(
            heading,
            justify="right" if heading in {"ours", "peer"} else "left",
            no_wrap=heading not in {"measure", "mark"},
        )
    for name, row in results["rows"].items():
        table.add_row(
            name,
            row["measure"],
            number(row["ours"]),
            number(row["peer"]),
            row["unit"],
            ratio(row),
            row.get("mark", ""),
            met(row),
        )
    console.print(table)


def number(value: float | None) -> str:
    """Format a figure with thousands separators, or a dash."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:g}"


def ratio(row: Mapping[str, Any]) -> str:
    """Return the median of the paired ratios with its range, or a dash."""
    if row.get("ratio") is None:
        return "–"
    low, high = row["spread"]["ratio"]
    return f"{row['ratio']:.2f}× ({low:.2f}–{high:.2f})"


def met(row: Mapping[str, Any]) -> str:
    """Return whether a row meets its mark or its goal."""
    if row.get("goal_met"):
        return "goal"
    return {True: "yes", False: "no", None: "–"}[row.get("mark_met")]


def _order(name: str) -> tuple[str, int]:
    digits = name.lstrip("P")
    return ("P", int(digits)) if name.startswith("P") and digits.isdigit() else (name, 0)
