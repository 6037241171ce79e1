"""The performance page contains the measured figures only."""

import pytest

from benchmarks import page, results

WHERE = {"machine": "two cores", "commit": "abc", "date": "2026-01-02"}
ROW = WHERE | {
    "measure": "POST",
    "peer_is": "Atropos",
    "unit": "groups/s",
    "ours": 1234.0,
    "peer": 2.5,
    "ratio": 4.0,
    "spread": {"ratio": [3.0, 5.0]},
    "mark": "≥ 2×",
    "mark_met": True,
    "growth": [
        {"work": "4×", "ours": 9.0, "peer": 3.0, "ratio": 3.0, "spread": {"ratio": [2.0, 4.0]}}
    ],
}
WAITERS = WHERE | {"measure": "waiting", "all_wait": {"heartbeat": {"p50_ms": 2.0}}}
FOUND = {"rows": {"P1": ROW}, "extras": {"waiters": WAITERS}}


def test_the_page_shows_the_last_measured_figures() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.renewed(
        page.PAGE.read_text(encoding="utf-8"), results.read()
    )


def test_only_the_text_between_the_markers_is_rewritten() -> None:
    text = page.renewed(f"before\n{page.BEGIN}\nold\n{page.END}\nafter", FOUND)

    assert text.startswith(
        f"before\n{page.BEGIN}\nMeasured on: two cores; commit abc; 2026-01-02.\n"
    )
    assert text.endswith(f"{page.END}\nafter")
    assert "old" not in text
    assert page.renewed(text, FOUND) == text


def test_a_row_shows_both_sides_and_whether_the_target_is_reached() -> None:
    text = page.written(FOUND)

    row = (
        "| P1 | POST<br>beside: Atropos | 1,234 | 2.5 | groups/s | 4.00× (3.00–5.00) | ≥ 2× | yes |"
    )
    assert row in text
    assert "| P1 | 4× | 9 | 3 | groups/s | 3.00× (2.00–4.00) |" in text
    assert "| `waiters` | waiting |" in text


def test_a_row_shows_its_variants_below_it() -> None:
    more = {"ours": 8.0, "peer": 4.0, "ratio": 2.0, "spread": {"ratio": [1.0, 3.0]}}

    text = page.written(FOUND | {"rows": {"P1": ROW | {"clients_16": more}}})

    assert "| | … clients 16 | 8 | 4 | groups/s | 2.00× (1.00–3.00) | | |" in text


def test_the_page_shows_rows_as_shares_of_the_floor_of_the_machine() -> None:
    parts = {"receive_ms": 1.0, "parse_ms": 0.5, "write_ms": 0.8, "commit_ms": 0.7}
    floor = WHERE | parts | {"measure": "floor", "P1_ms": 0.4, "P2_ms": 5.0, "P4_ms": 0.25}

    text = page.written(FOUND | {"extras": {"floor": floor}})

    assert "receive 1, parse 0.5, write 0.8, commit 0.7." in text
    assert "| P1 | 2,500 groups/s | 1,234 | 49 % | 0 % |" in text
    assert "| P2 |" not in text


def test_the_page_shows_the_cost_of_the_queue_length() -> None:
    cost = {"at_depth": 2.5, "at_1000": 2.0, "growth": 1.25}
    depths = [{"queued": 10_000, "forming_ms": cost, "status_env_ms": cost}]
    row = ROW | {"growth": depths, "peer_growth": [{"queued": 50_000, "status_env_ms": 13.0}]}

    text = page.written(FOUND | {"rows": {"P5": row}})

    assert "| 10,000 | 1.25× | 1.25× | 2.5 |" in text
    assert "| peer, 50,000 | – | – | 13 |" in text


def test_the_page_names_machine_commit_and_date_of_each_figure() -> None:
    older = ROW | {"machine": "four cores"}
    text = page.written(FOUND | {"rows": {"P1": ROW, "P2": older, "P3": older | {"commit": "def"}}})

    assert text.startswith(
        "- P1, waiters: two cores; commit abc; 2026-01-02.\n"
        "- P2: four cores; commit abc; 2026-01-02.\n"
        "- P3: four cores; commit def; 2026-01-02.\n"
    )


@pytest.mark.parametrize(("is_met", "word"), [(True, "yes"), (False, "no")])
def test_the_page_shows_how_fast_each_killed_part_recovers(is_met: bool, word: str) -> None:
    killed = {"kills": 20, "web_process_s": 1.9, "median": {"web_process_s": 0.4}}
    row = WHERE | killed | {"measure": "kill", "mark": "web ≤ 2 s", "mark_met": is_met}

    text = page.written(FOUND | {"extras": {"healing": row}})

    assert "`healing`, 20 kills of each part:" in text
    assert "| web process | 0.4 | 1.9 |" in text
    assert f"Target: web ≤ 2 s. Reached: {word}." in text
    assert "latest.json" not in text


def test_the_page_marks_rows_measured_on_a_busy_machine() -> None:
    rows = {"P1": ROW | {"load_before": 6.5}, "P2": ROW | {"load_before": 0.2}}

    text = page.written(FOUND | {"rows": rows})

    assert "(load before): P1 6.5. Of them" in text
    assert "other work" not in page.written(FOUND)


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks"):
        page.renewed("nothing", FOUND)
