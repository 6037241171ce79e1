"""The table of ASVS 5.0 has each requirement once, and each of its tests exists."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/operate/asvs.md").read_text(encoding="utf-8")
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| V")
]
AMOUNT: Final = 253
"""Requirements of levels 1 and 2 in version 5.0.0."""
WHOLE_CHAPTERS: Final = {"V10", "V17"}
"""Chapters that do not apply, with one row each."""
NAMED: Final = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def amount(row: list[str]) -> int:
    """Return the number of requirements of a row."""
    return int(row[1].split()[0]) if row[0] in WHOLE_CHAPTERS else 1


def test_each_requirement_has_one_row_with_a_status_and_a_test_or_reason() -> None:
    ids = [row[0] for row in ROWS]
    wrong = [
        row
        for row in ROWS
        if len(row) != 4
        or not (row[0] in WHOLE_CHAPTERS or re.fullmatch(r"V\d{1,2}\.\d{1,2}\.\d{1,2}", row[0]))
        or row[2] not in {"met", "not met", "not applicable"}
        or len(row[1].split()) > 12
        or len(row[3]) < 5
    ]

    assert wrong == []
    assert len(ids) == len({*ids})
    numbers = [[int(part) for part in name[1:].split(".")] for name in ids]
    assert numbers == sorted(numbers)
    assert {f"V{chapter}" for chapter in range(1, 18)} == {name.split(".")[0] for name in ids}


def test_the_counts_of_the_introduction_are_those_of_the_rows() -> None:
    counts: Counter[str] = Counter()
    for row in ROWS:
        counts[row[2]] += amount(row)

    stated = re.search(
        r"Of (\d+) requirements, (\d+) are met, (\d+) are not met, and (\d+) do not apply", PAGE
    )
    assert stated
    assert [int(number) for number in stated.groups()] == [
        AMOUNT,
        counts["met"],
        counts["not met"],
        counts["not applicable"],
    ]
    assert counts.total() == AMOUNT


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED.findall(PAGE)}))
def test_each_named_test_exists(file: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    defined = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {test for name, test in NAMED.findall(PAGE) if name == file} <= defined
