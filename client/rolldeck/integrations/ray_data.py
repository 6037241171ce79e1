"""Archives of groups as data sets of Ray Data.

::

    rows = ray_data.read_archive("my-run.parquet")
    best = rows.filter(expr="score > 0.9")

A row is a sequence; its columns are in docs/reference/archive.md. Each read task reads some Parquet
row groups of the archive, so all nodes need the file under the same path. The order of the rows is
not defined unless ``DataContext.get_current().execution_options.preserve_order`` is set.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from ray.data import Dataset, Datasource, ReadTask, read_datasource
from ray.data.block import BlockMetadata

from rolldeck.sequences import (
    SCHEMA,
    ArchiveUnreadableError,
    groups_in,
    row_groups_of,
    sequences_of,
)

__all__ = ["ArchiveDatasource", "ArchiveUnreadableError", "read_archive"]


def read_archive(path: str | Path, *, override_num_blocks: int | None = None) -> Dataset:
    """Return the sequences of an archive, one row each.

    Args:
        path: The file, on every node.
        override_num_blocks: Number of read tasks, at most one per Parquet row group; by default
            Ray Data chooses.

    Raises:
        ArchiveUnreadableError: If the file is cut short, is no archive, or holds fragments. Damage
            to a single group fails the read task of its rows.
        OSError: If the file cannot be read.
    """
    return read_datasource(ArchiveDatasource(path), override_num_blocks=override_num_blocks)


class ArchiveDatasource(Datasource):
    """Datasource of an archive; each read task covers consecutive Parquet row groups."""

    def __init__(self, path: str | Path) -> None:
        """Read the metadata of the file.

        Raises:
            ArchiveUnreadableError: If the file is cut short, is no archive, or holds fragments.
            OSError: If the file cannot be read.
        """
        super().__init__()
        self._path = Path(path).absolute()
        self._sizes = [size for _, size in row_groups_of(self._path)]

    def estimate_inmemory_data_size(self) -> int:
        """Return the uncompressed bytes of the archive's columns."""
        return sum(self._sizes)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,
    ) -> list[ReadTask]:
        """Return read tasks of about equally many Parquet row groups, at most `parallelism`."""
        del data_context
        count = max(1, min(parallelism, len(self._sizes)))
        bounds = [len(self._sizes) * part // count for part in range(count + 1)]
        return [
            ReadTask(
                _reader(self._path, range(first, end)),
                BlockMetadata(
                    num_rows=None,
                    size_bytes=sum(self._sizes[first:end]),
                    input_files=[str(self._path)],
                    exec_stats=None,
                ),
                schema=SCHEMA,
                per_task_row_limit=per_task_row_limit,
            )
            for first, end in pairwise(bounds)
        ]


def _reader(path: Path, row_groups: range) -> Callable[[], Iterator[pa.Table]]:
    def read() -> Iterator[pa.Table]:
        for groups in groups_in(path, row_groups):
            rows = [row for archived in groups for row in sequences_of(archived)]
            yield pa.Table.from_pylist(rows, schema=SCHEMA)

    return read
