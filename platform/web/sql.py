"""Statements by name, from the file ``sql/queries.sql`` of an app.

A statement begins with a line ``-- name --`` and one sentence as a comment. ``{name}`` in it
includes another statement; other braces stay.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

_STATEMENT = re.compile(r"^-- (\w+) --\n(?:-- .*\n)+", re.MULTILINE)
_INCLUDED = re.compile(r"\{(\w+)\}")


@cache
def statements_of(app: str) -> Mapping[str, str]:
    """Return the statements of an app, by name."""
    text = (resources.files(app) / "sql" / "queries.sql").read_text(encoding="utf-8")
    _, *parts = _STATEMENT.split(text)
    raw = dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
    return {name: _with_included(statement, raw) for name, statement in raw.items()}


def _with_included(statement: str, raw: Mapping[str, str]) -> str:
    def included(found: re.Match[str]) -> str:
        name = found[1]
        return _with_included(raw[name], raw) if name in raw else found[0]

    return _INCLUDED.sub(included, statement)


def filled(statement: str, **parts: str) -> str:
    """Return a statement with constants of the code in place of ``{name}``."""
    for name, part in parts.items():
        statement = statement.replace(f"{{{name}}}", part)
    return statement
