"""Columns of a data set, from its first row or its metadata."""

from pathlib import Path
from typing import Any

import msgspec

from rollouts.fleet.datasets.rows import (
    MOST_ROW_BYTES,
    DatasetUnusable,
    dataset_path,
    file_of,
    has_splits,
    is_saved,
    parquet_columns,
)
from rollouts.tasks.rules.dataset_config import DatasetConfig


def column_problem(name: str, config: DatasetConfig, *, root: str) -> tuple[str, str] | None:
    """Return the argument that does not match a data set of this machine, and the reason.

    The check takes milliseconds: workers check each row. The argument is empty if the data set
    itself is at fault.

    Args:
        name: Path below the folder.
        config: Arguments of the lesson.
        root: Folder of this machine's data sets; empty if there is none.

    Returns:
        None without a problem, or if this machine does not have the data set.
    """
    try:
        path = dataset_path(name, root)
    except DatasetUnusable:
        return None
    if config.eval_split and not has_splits(path):
        return "eval_split", f"{name} is a single file, which has no splits"
    for argument in ("train_split", "eval_split"):
        problem = _split_problem(path, config, argument)
        if problem is not None:
            return problem
    return None


def _split_problem(path: Path, config: DatasetConfig, argument: str) -> tuple[str, str] | None:
    split = getattr(config, argument)
    if not split:
        return None
    try:
        columns = _columns(path, split)
    except DatasetUnusable as error:
        if error.kind == "dependency_missing":
            return None
        return argument if has_splits(path) else "", str(error)
    for field in ("prompt", "answer"):
        column = getattr(config, field)
        if column and columns is not None and column not in columns:
            return field, f"{path.name} has no column {column!r}; columns: {', '.join(columns)}"
    return None


def _columns(path: Path, split: str) -> list[str] | None:
    """Return the columns of a split; None if this machine cannot read them.

    Raises:
        DatasetUnusable: If there is no such split, or it has no rows.
    """
    if is_saved(path):
        return _saved_columns(path, split)
    file = file_of(path, split)
    if file.suffix == ".parquet":
        return parquet_columns(file)
    try:
        with file.open("rb") as opened:
            line = b"\n"
            while line and not line.strip():
                line = opened.readline(MOST_ROW_BYTES + 1)
    except OSError as error:
        raise DatasetUnusable(f"{file.name}: {error.strerror or error}") from error
    if not line:
        raise DatasetUnusable(f"{file.name}: contains no rows")
    try:
        return list(msgspec.json.decode(line, type=dict[str, Any]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # workers leave invalid rows out, or stop: a setting of the lesson


def _saved_columns(path: Path, split: str) -> list[str] | None:
    """Return the columns of a folder of `save_to_disk`, from its description."""
    folder = path / split if (path / "dataset_dict.json").exists() else path
    if not folder.is_dir():
        raise DatasetUnusable(f"{path.name}: no split {split!r}")
    try:
        described = msgspec.json.decode((folder / "dataset_info.json").read_bytes())
        return list(described["features"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return None
