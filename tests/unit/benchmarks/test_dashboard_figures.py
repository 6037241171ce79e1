"""Figures of the dashboard, kept by tests and written into the page."""

from pathlib import Path

import pytest

from benchmarks.page import PAGE
from benchmarks.page_section import renewed
from tests.e2e import figures


def test_the_page_holds_the_kept_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    text = figures.table(figures.read())

    assert page == renewed(page, text, begin=figures.BEGIN, end=figures.END)


@pytest.mark.parametrize(("publish", "kept"), [("", {}), ("1", {"memory": "10 MB"})])
def test_a_figure_is_kept_only_for_publishing(
    publish: str, kept: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{figures.BEGIN}\nold\n{figures.END}\nafter", encoding="utf-8")
    monkeypatch.setenv("PUBLISH", publish)
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(figures, "PAGE", page)

    figures.show("memory", "10 MB", "250 MB")

    assert {name: row["figure"] for name, row in figures.read().items()} == kept
    assert ("| memory | 10 MB | 250 MB |" in page.read_text(encoding="utf-8")) is bool(publish)
    assert ("old" in page.read_text(encoding="utf-8")) is not bool(publish)
