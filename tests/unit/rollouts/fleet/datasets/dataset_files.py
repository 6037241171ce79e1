"""Small data sets on disk."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

Rows = Iterable[Mapping[str, Any]]


def sums(count: int, *, start: int = 0) -> list[dict[str, Any]]:
    """Return problems of addition with distinct prompts."""
    return [{"prompt": f"{n}+1=", "answer": str(n + 1)} for n in range(start, start + count)]


def write_jsonl(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_parquet(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist([*rows]), path)
    return path
