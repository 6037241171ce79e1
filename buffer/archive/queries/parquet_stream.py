"""Streaming Parquet writer, which returns each part as soon as it is encoded."""

from collections.abc import Mapping, Sequence
from typing import Any

from buffer.archive.queries.parquet import ArchiveUnavailable


class _Sink:
    """File object for pyarrow; buffers the bytes that have not been taken yet."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def write(self, part: Any) -> int:
        content = bytes(part)
        self._parts.append(content)
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Do nothing; there is no other buffer."""

    def close(self) -> None:
        """Do nothing; the buffered parts stay available."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def taken(self) -> bytes:
        content = b"".join(self._parts)
        self._parts.clear()
        return content


class ParquetStream:
    """A Parquet file, written one row group at a time.

    Raises:
        ArchiveUnavailable: If pyarrow is not installed.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        """Start a file; `columns` maps names to Arrow types or ``time``."""
        try:
            import pyarrow as pa
            import pyarrow.parquet
        except ImportError:
            raise ArchiveUnavailable(
                "Parquet needs pyarrow, which is not installed: pip install 'rolldeck[archive]'"
            ) from None
        times = {"time": pa.timestamp("us", tz="UTC")}
        self._schema = pa.schema(
            [(name, times.get(word) or pa.type_for_alias(word)) for name, word in columns.items()]
        )
        self._sink = _Sink()
        self._file = pa.PythonFile(self._sink, mode="w")
        self._writer = pyarrow.parquet.ParquetWriter(self._file, self._schema, compression="zstd")

    def write(self, rows: Sequence[tuple[Any, ...]]) -> bytes:
        """Return the bytes of one row group; values are in column order."""
        import pyarrow as pa

        arrays = [
            pa.array(list(column), type=field.type)
            for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._writer.write_batch(batch, row_group_size=len(rows))
        return self._sink.taken()

    def close(self) -> bytes:
        """Return the last bytes of the file."""
        self._writer.close()
        return self._sink.taken()
