"""Store, move and delete tensors by key."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import psycopg
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Sum
from isal.isal_zlib import crc32

from buffer.ingest.services.pushes import QueueFull, check_accepts
from buffer.payloads.services import objects
from buffer.payloads.services.removal import check_may_remove
from buffer.tensors.models import StoredTensor, TensorObject
from buffer.tensors.rules import (
    AFTER_PREFIX,
    InvalidTensors,
    check_keys,
    check_moves,
    parts_of,
)
from buffer.tensors.schemas import TensorReceipt
from runs.lifecycle.models import Run
from web.disk_space import check_disk
from web.rules.errors import Conflict
from web.sql import cursor, statements_of

SQL: Final = statements_of("buffer")


WRITE_TIME: Final = timedelta(hours=1)
"""Time after which an object without tensors belongs to no request in progress."""
_UNUSED_AT_ONCE: Final = 1000


class TensorExists(Conflict):
    """A tensor has the key that another one would get."""

    code = "tensor_exists"
    title = "The tensor exists"


def put_tensors(*, run: Run, body: bytes, now: datetime) -> TensorReceipt:
    """Store all tensors of a safetensors file, or none; they are durable on return.

    Existing tensors with the same keys are replaced, so a repeated push changes nothing.

    Raises:
        InvalidTensors: If the body is invalid; names the tensor.
        RunNotAccepting: If the run has ended.
        QueueFull: If the run is at its limit of bytes.
        DiskFull: If free disk space is below the minimum.
        PayloadStorageDown: If the storage is unavailable.
    """
    parts = parts_of(body)
    check_accepts(run)
    held = _held.of(run.pk)
    if held >= settings.ROLLDECK_MAX_RUN_BYTES:
        raise QueueFull(
            f"{run.name} holds {held} bytes of tensors, "
            f"at most {settings.ROLLDECK_MAX_RUN_BYTES} allowed"
        )
    check_disk()
    is_inline = len(body) <= settings.ROLLDECK_INLINE_PAYLOAD_BYTES
    object_id = None
    if not is_inline:
        name = f"tensors-{run.pk}/{uuid4().hex}"
        object_id = TensorObject.objects.create(
            run=run, name=name, size_bytes=len(body), created_at=now
        ).pk
        objects.write(name, [body])
    view = memoryview(body)
    sizes = [part.tensor.size_bytes for part in parts]
    parameters = {
        "run": run.pk,
        "object": object_id,
        "content": body if is_inline else None,
        "size": len(body),
        "now": now,
        "keys": [part.tensor.name for part in parts],
        "dtypes": [part.tensor.dtype for part in parts],
        "codecs": [part.codec for part in parts],
        "shapes": ["{" + ",".join(map(str, part.tensor.shape)) + "}" for part in parts],
        "offsets": [part.offset for part in parts],
        "sizes": sizes,
        "checksums": [
            crc32(view[part.offset : part.offset + size])
            for part, size in zip(parts, sizes, strict=True)
        ],
    }
    with cursor() as sql:
        rows = sql.execute(SQL["insert_tensors"], parameters, prepare=True).fetchall()
    _held.add(run.pk, len(body))
    if rows:
        remove_unused(object_id for (object_id,) in rows)
    return TensorReceipt(keys=len(parts), size_bytes=sum(sizes))


class HeldBytes:
    """Sizes of the tensors of runs, as of the last second, with the pushes of this process since.

    A sum over all objects of a run at each push would take longer with each push.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._found: dict[int, tuple[int, float]] = {}

    def of(self, run_id: int) -> int:
        """Return the size of the tensors of a run; read again if it is at its limit."""
        size, read_at = self._found.get(run_id, (0, -math.inf))
        now = time.monotonic()
        if now - read_at > HELD_SECONDS or size >= settings.ROLLDECK_MAX_RUN_BYTES:
            size = stored_tensor_bytes(run_id)
            self._found[run_id] = size, now
        return size

    def add(self, run_id: int, size_bytes: int) -> None:
        """Add a push of this process."""
        size, read_at = self._found.get(run_id, (0, -math.inf))
        self._found[run_id] = size + size_bytes, read_at


HELD_SECONDS: Final = 1.0
_held: Final = HeldBytes()


def delete_tensors(*, run: Run, keys: Sequence[str], prefixes: Sequence[str]) -> int:
    """Delete tensors by key and by prefix, all or none; return their number.

    Unknown keys and prefixes are ignored, so a repeated request changes nothing.

    Raises:
        InvalidTensors: If a key or prefix is invalid.
    """
    check_keys("keys", keys)
    check_keys("prefixes", prefixes)
    with transaction.atomic():
        rows = StoredTensor.objects.filter(run=run, key__in=keys).order_by("key")
        ids = set(rows.select_for_update().values_list("pk", flat=True)) if keys else set()
        ids |= _locked(run, prefixes)
        found = StoredTensor.objects.filter(pk__in=ids)
        replaced = set(found.values_list("object_id", flat=True))
        count, _ = found.delete()
    remove_unused(replaced)
    return count


def move_tensors(*, run: Run, moves: Mapping[str, str]) -> int:
    """Replace prefixes of keys, all or none; return the number of renamed tensors.

    A repeated request changes nothing, because no key has an old prefix any more.

    Raises:
        InvalidTensors: If a prefix is invalid or begins with another one.
        TensorExists: If a tensor has a new key already.
    """
    check_moves(moves)
    parameters = [list(moves), list(moves.values()), run.pk, AFTER_PREFIX]
    try:
        with transaction.atomic():
            _locked(run, list(moves))
            with cursor() as sql:
                return sql.execute(SQL["move_tensors"], parameters).rowcount
    except psycopg.DataError as error:
        raise InvalidTensors("moves", f"a new key is too long: {error}") from error
    except psycopg.IntegrityError as error:
        raise TensorExists("a tensor with a new key exists; nothing was moved") from error


def remove_unused(ids: Iterable[int]) -> int:
    """Remove those of the objects that no tensor refers to; return their number.

    During a backup none is removed; a job repeats the removal.

    Raises:
        PayloadStorageDown: If the storage is unavailable; a job repeats the removal.
    """
    users = StoredTensor.objects.filter(object_id=OuterRef("pk"))
    rows = TensorObject.objects.filter(~Exists(users), pk__in=list(ids))
    count = 0
    with transaction.atomic(), cursor() as sql:
        if sql.execute(SQL["may_remove_objects"]).fetchone() == (False,):
            return 0
        for pk, name in list(rows.values_list("pk", "name")):
            # The row goes last: it is the only record of the bytes.
            if name:
                objects.delete(name)
            count += TensorObject.objects.filter(pk=pk).delete()[0]
    return count


def remove_unused_objects(*, now: datetime) -> int:
    """Remove objects of interrupted pushes; return their number."""
    users = StoredTensor.objects.filter(object_id=OuterRef("pk"))
    old = TensorObject.objects.filter(~Exists(users), created_at__lt=now - WRITE_TIME)
    return remove_unused(old.values_list("pk", flat=True)[:_UNUSED_AT_ONCE])


def remove_objects(_run_id: int, ids: Sequence[int]) -> int:
    """Remove the bytes of objects of a deleted run; return their size.

    Raises:
        RemovalPostponed: While a backup copies objects.
        PayloadStorageDown: If the storage is unavailable.
    """
    check_may_remove()
    size = 0
    for name, size_bytes in TensorObject.objects.filter(pk__in=ids).values_list(
        "name", "size_bytes"
    ):
        if name:
            objects.delete(name)
        size += size_bytes
    return size


def stored_tensor_bytes(run_id: int) -> int:
    """Return the size of the tensors of a run."""
    held = TensorObject.objects.filter(run_id=run_id).aggregate(held=Sum("size_bytes"))["held"]
    return int(held or 0)


def _locked(run: Run, prefixes: Sequence[str]) -> set[int]:
    """Lock the tensors with one of the prefixes in the order of their keys; return their ids."""
    if not prefixes:
        return set()
    with cursor() as sql:
        rows = sql.execute(SQL["lock_tensors"], [list(prefixes), run.pk, AFTER_PREFIX])
        return {row[0] for row in rows}
