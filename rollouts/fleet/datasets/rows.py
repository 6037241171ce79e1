"""Rows of data sets: JSONL, Parquet, and folders of the `datasets` package.

A data set is a file or folder below the folder that ``ROLLDECK_DATASETS`` names on each machine.
Rows stay on disk or in Arrow's memory; a row is decoded when it is read.
"""

import os
import weakref
from array import array
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from rollouts.tasks.rules.dataset_config import NAME, DatasetConfig

Row = Mapping[str, Any]
VARIABLE: Final = "ROLLDECK_DATASETS"
SUFFIXES: Final = (".jsonl", ".parquet")
MOST_ROW_BYTES: Final = 1 << 20
EXTRA: Final = "pip install 'rolldeck-server[prompts]'"
_LINE: Final = msgspec.json.Decoder(dict[str, Any])
MOST_LISTED: Final = 200


class DatasetUnusable(ValueError):
    """The data set cannot be read; `kind` is the kind of the event."""

    def __init__(self, message: str, *, kind: str = "dataset_invalid") -> None:
        super().__init__(message)
        self.kind = kind


class Rows(Protocol):
    """Rows of one split."""

    label: str
    """Name of the file or folder, for messages."""

    def __len__(self) -> int:
        """Return the number of rows, valid or not."""

    def place(self, number: int) -> str:
        """Return the file and the line or number of a row, for messages."""

    def row(self, number: int) -> Row:
        """Return a row.

        Raises:
            DatasetUnusable: If it is invalid.
        """


class JsonLines:
    """Lines of a JSONL file, decoded on access."""

    def __init__(self, path: Path) -> None:
        self.label = path.name
        self._starts, self._lines = array("Q"), array("Q")
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        at = 0
        with path.open("rb") as file:
            for line in count(1):
                length, is_blank = 0, True
                while part := file.readline(MOST_ROW_BYTES):
                    length += len(part)
                    is_blank = is_blank and not part.strip()
                    if part.endswith(b"\n"):
                        break
                if not length:
                    break
                if not is_blank:
                    self._starts.append(at)
                    self._lines.append(line)
                at += length
        self._size = at

    def __len__(self) -> int:
        return len(self._starts)

    def place(self, number: int) -> str:
        """Return the file and the line, counted from 1."""
        return f"{self.label}, line {self._lines[number]}"

    def row(self, number: int) -> Row:
        where, start = self.place(number), self._starts[number]
        size = (self._starts[number + 1] if number + 1 < len(self) else self._size) - start
        line = os.pread(self._file, min(size, MOST_ROW_BYTES + 1), start).partition(b"\n")[0]
        if len(line) > MOST_ROW_BYTES:
            raise DatasetUnusable(f"{where}: {size:,} bytes, at most {MOST_ROW_BYTES:,} allowed")
        try:
            return _LINE.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DatasetUnusable(f"{where}: not a JSON object: {error}") from error


class ArrowRows:
    """Rows of an Arrow table, or of a data set of the `datasets` package."""

    def __init__(self, table: Any, label: str) -> None:
        self.label, self._table = label, table

    def __len__(self) -> int:
        return len(self._table)

    def place(self, number: int) -> str:
        """Return the file and the row, counted from 0."""
        return f"{self.label}, row {number}"

    def row(self, number: int) -> Row:
        if hasattr(self._table, "to_pylist"):
            [row] = self._table.slice(number, 1).to_pylist()
        else:
            row = dict(self._table[number])
        size = sum(len(value) for value in row.values() if isinstance(value, str | bytes))
        if size > MOST_ROW_BYTES:
            raise DatasetUnusable(
                f"{self.place(number)}: {size:,} characters, at most {MOST_ROW_BYTES:,} allowed"
            )
        plain: Row = msgspec.to_builtins(row, enc_hook=str)
        return plain


def datasets_folder() -> str:
    """Return the folder of this machine's data sets; empty if there is none."""
    return os.environ.get(VARIABLE, "")


def dataset_path(name: str, root: str) -> Path:
    """Return the path of a data set on this machine.

    Args:
        name: Path below the folder.
        root: Folder of the machine's data sets; empty if there is none.

    Raises:
        DatasetUnusable: ``dataset_missing`` if it does not exist here.
    """
    if not root:
        raise DatasetUnusable(
            f"{name}: {VARIABLE} is not set on this machine", kind="dataset_missing"
        )
    path = Path(root) / name
    if not path.exists():
        raise DatasetUnusable(
            f"{name} does not exist below {VARIABLE} on this machine", kind="dataset_missing"
        )
    return path


def read_split(path: Path, split: str) -> Rows:
    """Return the rows of a split.

    Args:
        path: A file, which is its only split; a folder with a file per split, such as
            ``train.jsonl``; or a folder that ``save_to_disk`` of `datasets` wrote.
        split: Name of the split; ignored for a file and for a folder without splits.

    Raises:
        DatasetUnusable: If there is no such split, a package is missing or a file is damaged.
    """
    if is_saved(path):
        try:
            import datasets
        except ModuleNotFoundError as error:
            raise _missing("folders of save_to_disk need datasets") from error
        try:
            found = datasets.load_from_disk(str(path))
        except Exception as error:  # the package raises errors of several others
            raise DatasetUnusable(f"{path.name}: {type(error).__name__}: {error}") from error
        if isinstance(found, datasets.DatasetDict):
            if split not in found:
                splits = ", ".join(found)
                raise DatasetUnusable(f"{path.name}: no split {split!r}; splits: {splits}")
            found = found[split]
        return ArrowRows(found, path.name)
    file = file_of(path, split)
    try:
        if file.suffix != ".parquet":
            return JsonLines(file)
        opened = _opened(file)
        from pyarrow import ArrowException

        try:
            return ArrowRows(opened.read(), file.name)
        except ArrowException as error:
            raise DatasetUnusable(f"{file.name}: damaged: {error}") from error
    except OSError as error:
        raise DatasetUnusable(f"{file.name}: {error.strerror or error}") from error


def is_saved(path: Path) -> bool:
    """Return whether `save_to_disk` of `datasets` wrote a folder."""
    return (path / "dataset_dict.json").exists() or (path / "state.json").exists()


def file_of(path: Path, split: str) -> Path:
    """Return the file of a split: the only file, or the one in a folder with the split's name.

    Raises:
        DatasetUnusable: If there is none, or it is neither JSONL nor Parquet.
    """
    if path.is_dir():
        files = [path / f"{split}{suffix}" for suffix in SUFFIXES]
        found = [file for file in files if file.is_file()]
        if not found:
            names = " or ".join(file.name for file in files)
            raise DatasetUnusable(f"{path.name}: contains no {names}")
        path = found[0]
    if path.suffix not in SUFFIXES:
        raise DatasetUnusable(f"{path.name}: use a .jsonl or .parquet file, or a folder")
    return path


def has_splits(path: Path) -> bool:
    """Return whether a data set has named splits."""
    return path.is_dir() and not (path / "state.json").exists()


def rows_in(rows: Rows) -> Iterator[tuple[int, Row | DatasetUnusable]]:
    """Yield the number and the content of each row, or its error."""
    for number in range(len(rows)):
        try:
            yield number, rows.row(number)
        except DatasetUnusable as error:
            yield number, error


def parquet_columns(path: Path) -> list[str]:
    """Return the columns of a Parquet file, from its metadata.

    Raises:
        DatasetUnusable: If it is damaged or has no rows, or pyarrow is missing.
    """
    found = _opened(path)
    if not found.metadata.num_rows:
        raise DatasetUnusable(f"{path.name}: contains no rows")
    return list(found.schema_arrow.names)


def _opened(path: Path) -> Any:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise _missing("Parquet files need pyarrow") from error
    try:
        return parquet.ParquetFile(path, memory_map=True)
    except ArrowException as error:
        raise DatasetUnusable(f"{path.name}: not a Parquet file: {error}") from error
    except OSError as error:
        raise DatasetUnusable(f"{path.name}: {error.strerror or error}") from error


def _missing(text: str) -> DatasetUnusable:
    return DatasetUnusable(f"{text}: {EXTRA}", kind="dependency_missing")


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
        split = getattr(config, argument)
        if not split:
            continue
        try:
            columns = _columns(path, split)
        except DatasetUnusable as error:
            if error.kind == "dependency_missing":
                continue
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
        folder = path / split if (path / "dataset_dict.json").exists() else path
        if not folder.is_dir():
            raise DatasetUnusable(f"{path.name}: no split {split!r}")
        try:
            described = msgspec.json.decode((folder / "dataset_info.json").read_bytes())
            return list(described["features"])
        except (OSError, msgspec.DecodeError, KeyError, TypeError):
            return None
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


def listed(root: str) -> list[str]:
    """Return the first files and folders of the folder of data sets, by name.

    Args:
        root: The folder; empty if there is none.
    """
    try:
        entries = sorted(Path(root).iterdir()) if root else []
    except OSError:
        return []
    usable = (one.name for one in entries if one.suffix in SUFFIXES or one.is_dir())
    return [name for name in usable if NAME.fullmatch(name)][:MOST_LISTED]
