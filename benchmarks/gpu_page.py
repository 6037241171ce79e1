"""Write the outcomes of the GPU check into docs/explanation/gpu.md, between its markers."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import gpu_rows, page_section

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "gpu.md"
RESULTS: Final = Path(__file__).with_name("results")
BEGIN: Final = "<!-- outcomes: make gpu-check writes from here -->"
END: Final = "<!-- outcomes: to here -->"
NONE: Final = "No result of this check from a GPU is committed: no row has run on one yet."


def renewed(page: str, reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with the outcomes of `reports` between its markers.

    Raises:
        ValueError: If the page has no markers.
    """
    return page_section.renewed(page, written(reports), begin=BEGIN, end=END)


def written(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the outcomes on GPUs as Markdown; without any, the rows of the check."""
    if not reports:
        lines = [f"| {row.name} | {row.checks} |" for row in gpu_rows.rows()]
        return "\n".join([NONE, "", "| row | checks |", "|---|---|", *lines])
    return "\n\n".join(_section(report) for report in reports)


def _section(report: Mapping[str, Any]) -> str:
    heading = (
        f"### {report['gpu']}\n\ntorch {report['torch']}, CUDA {report['cuda_version']}, "
        f"Python {report['python']}, {report['processors']} processors, {report['date'][:10]}, "
        f"commit {(report['commit'] or 'unknown')[:8]}; {report['seconds']:g} s per measurement."
    )
    lines = ["| row | GPU | figures on the GPU | on the CPU of the machine |"]
    lines += ["|---|---|---|---|"]
    for row in gpu_rows.rows():
        found = report["rows"].get(row.name, {})
        cells = (row.name, _state(found), _cell(found, "cuda"), _cell(found, "cpu"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([heading, "", *lines])


def _state(row: Mapping[str, Any]) -> str:
    return str(row["cuda"]["state"]) if "cuda" in row else "not measured"


def _cell(row: Mapping[str, Any], device: str) -> str:
    outcome = row.get(device)
    if outcome is None:
        return "–"
    # The number of copies is checked, and is the same in every row that passes.
    shown = {
        name: value for name, value in outcome["figures"].items() if not name.startswith("copies")
    }
    text = outcome["reason"] or words(shown)
    return text.replace("|", "\\|").replace("\n", " ")


def words(figures: Mapping[str, float]) -> str:
    """Return figures as text."""
    return ", ".join(
        f"{name.replace('_per_second', '/s').replace('_', ' ')} {_number(value)}"
        for name, value in figures.items()
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def committed() -> list[dict[str, Any]]:
    """Return the committed reports from GPUs."""
    reports = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(RESULTS.glob("gpu-check-*.json"))
    ]
    return [report for report in reports if report["gpu"]]


def renew() -> None:
    """Update the page with the committed reports."""
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), committed()), encoding="utf-8")


if __name__ == "__main__":
    renew()
