"""Statements stand by name in one file per app, each with a sentence."""

import re
from pathlib import Path

from web.sql import filled, statements_of

BUFFER = Path(__file__).resolve().parents[3] / "buffer"
STATEMENTS = statements_of("buffer")


def test_every_statement_is_used() -> None:
    code = "".join(path.read_text() for path in BUFFER.rglob("*.py"))
    file = (BUFFER / "sql" / "queries.sql").read_text()
    used = set(re.findall(r'SQL\["(\w+)"\]', code)) | set(re.findall(r"\{(\w+)\}", file))

    assert set(re.findall(r"^-- (\w+) --$", file, re.MULTILINE)) == STATEMENTS.keys()
    assert STATEMENTS.keys() - used == set()


def test_a_statement_contains_those_that_it_includes() -> None:
    counted = STATEMENTS["count_changes"]

    assert STATEMENTS["add_changes"] in counted
    assert "{add_changes}" not in counted


def test_constants_replace_names_in_braces_alone() -> None:
    statement = "SELECT '{}' FROM {table}"

    assert filled(statement, table="runs_run") == "SELECT '{}' FROM runs_run"
