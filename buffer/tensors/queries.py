"""Stored tensors of a run."""

from collections.abc import Iterable
from typing import NamedTuple

from django.conf import settings
from isal.isal_zlib import crc32

from buffer.payloads.services import objects
from buffer.tensors.models import StoredTensor, TensorObject
from buffer.tensors.rules import AFTER_PREFIX, begin_of
from web.rules.errors import ApiError, NotFound, TooLarge


class TensorNotFound(NotFound):
    """The run has no tensor with a requested key."""

    code = "no_tensor"
    title = "No such tensor"
    field = "keys"


class TensorLost(ApiError):
    """The bytes of a tensor are missing or damaged."""

    status = 410
    code = "tensor_lost"
    title = "Tensor lost"


class _Row(NamedTuple):
    key: str
    dtype: str
    shape: list[int]
    size_bytes: int
    codec: str
    offset: int
    crc32: int
    object: int
    name: str


def tensors(run_id: int, *, prefix: str, after: str | None, limit: int) -> list[StoredTensor]:
    """Return a run's tensors in the order of their keys.

    Args:
        run_id: Id of the run.
        prefix: Prefix of the keys.
        after: Key of the last tensor of the previous page.
        limit: Maximum number of tensors.
    """
    found = StoredTensor.objects.filter(run_id=run_id)
    if prefix:
        found = found.filter(key__gte=prefix, key__lt=prefix + AFTER_PREFIX)
    if after is not None:
        found = found.filter(key__gt=after)
    return list(found.order_by("key")[:limit])


def read_tensors(run_id: int, keys: Iterable[str]) -> list[bytes]:
    """Return a safetensors file of tensors, in the order of `keys`, in parts.

    Raises:
        TensorNotFound: If a key does not exist.
        TooLarge: If the tensors together exceed the maximum size of a body.
        TensorLost: If the bytes of a tensor are missing or damaged.
        PayloadStorageDown: If the storage is unavailable.
    """
    wanted = list(dict.fromkeys(keys))
    rows = _rows(run_id, wanted)
    found = _contents(rows)
    if any(content is None for content in found):
        # Replaced or moved in between: the new rows name the new object.
        rows = _rows(run_id, wanted)
        found = _contents(rows)
    contents = []
    for row, content in zip(rows, found, strict=True):
        if content is None or len(content) != row.size_bytes or crc32(content) != row.crc32:
            where = row.name or f"object {row.object}"
            raise TensorLost(f"the bytes of tensor {row.key!r} are missing or damaged in {where}")
        contents.append(content)
    return [begin_of(row[:5] for row in rows), *contents]


def _rows(run_id: int, keys: list[str]) -> list[_Row]:
    rows = StoredTensor.objects.filter(run_id=run_id, key__in=keys).values_list(
        *(
            "key",
            "dtype",
            "shape",
            "size_bytes",
            "codec",
            "offset",
            "crc32",
            "object_id",
            "object__name",
        )
    )
    by_key = {row[0]: _Row(*row) for row in rows}
    missing = [key for key in keys if key not in by_key]
    if missing:
        raise TensorNotFound(
            f"{len(missing)} of {len(keys)} keys do not exist, the first is {missing[0]!r}"
        )
    size = sum(row.size_bytes for row in by_key.values())
    if size > settings.ROLLDECK_MAX_BODY_BYTES:
        raise TooLarge(
            f"{len(keys)} tensors of {size} bytes, at most {settings.ROLLDECK_MAX_BODY_BYTES} "
            "bytes allowed in one request (max_body_bytes)"
        )
    return [by_key[key] for key in keys]


def _contents(rows: list[_Row]) -> list[bytes | None]:
    """Return the bytes of each row; None if its object does not exist."""
    inline = dict(
        TensorObject.objects.filter(
            pk__in={row.object for row in rows if not row.name}
        ).values_list("pk", "content")
    )
    ranges: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rows:
        if row.name:
            ranges.setdefault(row.name, {})[row.key] = (row.offset, row.size_bytes)
    read = objects.read({name: list(inside.values()) for name, inside in ranges.items()})
    by_key = {
        key: part
        for name, parts in read.items()
        for key, part in zip(ranges[name], parts, strict=True)
    }
    for row in rows:
        if not row.name and (content := inline.get(row.object)) is not None:
            end = row.offset + row.size_bytes
            by_key[row.key] = bytes(memoryview(content)[row.offset : end])
    return [by_key.get(row.key) for row in rows]
