"""The report of campaigns adds up those of a folder, and replaces a block of a page."""

from pathlib import Path

import pytest

from rolldeck.chaos.report import BEGIN, END, publish, results_of, write_report
from rolldeck.chaos.results import Injected, Result


def result(seed: int, *faults: Injected, server: str = "Rolldeck") -> Result:
    return Result(
        accepted=1_500,
        attempts=1_600,
        served=1_400,
        seconds=60,
        seed=seed,
        injected=list(faults),
        commit="abc1234",
        machine="2 cores",
        date=f"2026-01-0{seed}",
        server=server,
        lost=7 if server != "Rolldeck" else 0,
        not_injected=["clock stepped: libfaketime is absent", *(["no Ray"] if seed == 1 else [])],
    )


def test_the_totals_add_up_all_campaigns_of_a_folder(tmp_path: Path) -> None:
    alone = Injected("kill web again and again", 1, 10, 4.25)
    paired = Injected("kill web again and again + flush Valkey", 1, 20, 6.5, 23.4)
    text = write_report(tmp_path, result(1, alone))
    write_report(tmp_path, result(2, paired, alone))
    write_report(tmp_path, result(2, alone, server="atroposlib"))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    (kept := tmp_path / "kept").mkdir()
    write_report(kept, result(3, alone))
    publish(tmp_path, kept, page)

    assert "not injected: clock stepped" in text
    assert [each.seed for each in results_of(tmp_path)] == [1, 2, 2]
    content = page.read_text()
    assert content.startswith(f"before\n{BEGIN}\n")
    assert content.endswith(f"{END}\nafter\n")
    assert "old" not in content
    assert "4,500 accepted groups and 0 fragments, 4 faults of 2 kinds in 3.0 minutes" in content
    assert "again after at most 6.5 s, and fleets after at most 23.4 s. 2 cores; commits" in content
    assert "commits abc1234; 2026-01-01 to" in content
    assert "Not injected: clock stepped: libfaketime is absent.\n" in content
    assert "| kill web again and again | 3 | 4.2 | 10 | 1 | 6.5 |" in content
    assert "| flush Valkey | 0 |  |  | 1 | 6.5 |" in content
    assert "| atroposlib | 1 | 1,500 | 7 | 0 |" in content


def test_a_page_without_a_block_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n")

    with pytest.raises(ValueError, match="no block"):
        publish(tmp_path, tmp_path / "kept", page)
