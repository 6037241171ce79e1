"""One file keeps the newest figures of every row, whichever rows were run."""

from pathlib import Path

from benchmarks import results

FIRST = {"ours": 2.0, "mark_met": True}
NEWER = {"ours": 3.0, "mark_met": False}


def test_a_row_that_is_run_again_replaces_only_itself() -> None:
    both = results.merge({}, machine="m", kind="rows", name="P2", figures=FIRST)
    both = results.merge(both, machine="m", kind="rows", name="P1", figures=FIRST)

    again = results.merge(both, machine="n", kind="rows", name="P1", figures=NEWER)

    assert again["rows"]["P1"] == NEWER
    assert FIRST.items() <= again["rows"]["P2"].items()


def test_older_figures_of_another_machine_name_it() -> None:
    merged: results.Results = {}
    for machine, name in (("m", "P2"), ("m", "P3"), ("n", "P1"), ("n", "P3")):
        merged = results.merge(merged, machine=machine, kind="rows", name=name, figures=FIRST)

    assert merged == {
        "machine": "n",
        "rows": {"P1": FIRST, "P2": FIRST | {"machine": "m"}, "P3": FIRST},
        "extras": {},
    }


def test_rows_are_ordered_by_their_numbers() -> None:
    merged: results.Results = {}
    for name in ("P11", "P9", "P1"):
        merged = results.merge(merged, machine="m", kind="rows", name=name, figures=FIRST)

    assert list(merged["rows"]) == ["P1", "P9", "P11"]


def test_other_figures_are_separate_from_the_rows() -> None:
    merged = results.merge(
        {"rows": {"P1": FIRST}}, machine="m", kind="extras", name="waiters", figures=NEWER
    )

    assert merged == {"machine": "m", "rows": {"P1": FIRST}, "extras": {"waiters": NEWER}}


def test_written_results_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    assert results.read(path) == {"machine": "", "rows": {}, "extras": {}}
    merged = results.merge({}, machine="8 × 2,048", kind="rows", name="P1", figures=FIRST)

    results.write(merged, path)

    assert results.read(path) == merged
    assert [file.name for file in path.parent.iterdir()] == ["latest.json"]
