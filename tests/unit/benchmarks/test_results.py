"""One file keeps the newest figures of every row, whichever rows were run."""

from pathlib import Path

from benchmarks import results

FIRST = {"ours": 2.0, "mark_met": True}
NEWER = {"ours": 3.0, "mark_met": False}


def test_a_row_that_is_run_again_replaces_only_itself() -> None:
    both = results.merge({}, kind="rows", name="P2", figures=FIRST)
    both = results.merge(both, kind="rows", name="P1", figures=FIRST)

    again = results.merge(both, kind="rows", name="P1", figures=NEWER)

    assert again["rows"]["P1"] == NEWER
    assert FIRST.items() <= again["rows"]["P2"].items()


def test_rows_are_ordered_by_their_numbers() -> None:
    merged: results.Results = {}
    for name in ("P11", "P9", "P1"):
        merged = results.merge(merged, kind="rows", name=name, figures=FIRST)

    assert list(merged["rows"]) == ["P1", "P9", "P11"]


def test_other_figures_are_separate_from_the_rows() -> None:
    rows = {"rows": {"P1": FIRST}}
    merged = results.merge(rows, kind="extras", name="waiters", figures=NEWER)

    assert merged == {"rows": {"P1": FIRST}, "extras": {"waiters": NEWER}}


def test_written_results_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    assert results.read(path) == {"rows": {}, "extras": {}}
    merged = results.merge({}, kind="rows", name="P1", figures=FIRST)

    results.write(merged, path)

    assert results.read(path) == merged
    assert [file.name for file in path.parent.iterdir()] == ["latest.json"]
