"""Figures of the dashboard that tests measure against a budget.

With ``PUBLISH=1`` they are kept, and written into `docs/explanation/performance.md`.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.machine import describe, provenance
from benchmarks.page import PAGE, measured
from benchmarks.page_section import renewed
from tests.server import ROOT

KEPT: Final = ROOT / "benchmarks" / "results" / "dashboard.json"
BEGIN: Final = "<!-- dashboard: make test-alone PUBLISH=1 writes from here -->"
END: Final = "<!-- dashboard: to here -->"


def show(name: str, figure: str, budget: str) -> None:
    """Print a figure; with ``PUBLISH=1`` keep it, and renew the page."""
    print(f"\n{name}: {figure} (budget: {budget})")  # noqa: T201 figures
    if not os.environ.get("PUBLISH"):
        return
    kept = read()
    kept[name] = {"figure": figure, "budget": budget} | provenance(describe())
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page = renewed(PAGE.read_text(encoding="utf-8"), table(kept), begin=BEGIN, end=END)
    PAGE.write_text(page, encoding="utf-8")


def read() -> dict[str, dict[str, str]]:
    """Return the kept figures by name."""
    if not KEPT.is_file():
        return {}
    kept: dict[str, dict[str, str]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return kept


def table(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the figures as Markdown, with machine, commit and date; empty without any."""
    if not kept:
        return ""
    lines = ["| | measured | budget |", "|---|---|---|"]
    lines += [f"| {name} | {row['figure']} | {row['budget']} |" for name, row in kept.items()]
    return "\n".join([*lines, "", measured(kept)])
