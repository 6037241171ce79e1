"""Give the stored samples of earlier controllers of TransferQueue to the present one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import msgspec
import torch

from rolldeck.integrations.transfer_queue_storage import MSGPACK, Sample
from rolldeck.tensor_store import TensorStore

AT_ONCE: Final = 1024
"""Number of samples that are moved together."""
TORCH_TYPES: Final = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "F32": torch.float32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


@dataclass(slots=True)
class Restored:
    """Result of :func:`restore`."""

    samples: dict[str, int] = field(default_factory=dict)
    """Number of samples by partition."""
    values: int = 0
    """Number of values of these samples."""
    size_bytes: int = 0
    """Size of these values."""
    deleted: int = 0
    """Deleted values: of pushes without an acknowledgement, and of replaced samples."""


@dataclass(frozen=True, slots=True)
class _Found:
    namespace: str
    index: int
    rows: dict[str, Any]
    """Rows of its values by field."""
    sample: Sample

    @property
    def prefix(self) -> str:
        return f"{self.namespace}/{self.index}@"


def restore(client: Any) -> Restored:
    """Register all stored samples with the controller of a client.

    Bytes are not copied. Samples keep their keys, tags and fields; their indexes change, and no
    task has consumed them. A repeated call changes nothing. Call it once after a restart, before
    other processes push samples.

    Args:
        client: `transfer_queue.get_client()`, with the backend ``rolldeck``.

    Raises:
        RolldeckError: If the platform refuses a request or is unreachable.
    """
    storage = client.storage_manager.storage_client
    store, namespace = storage.store, storage.namespace
    found, orphans = _found(store, namespace)
    current, replaced = _latest(found, namespace)
    result = Restored()
    result.deleted = store.delete(prefixes=[*orphans, *(one.prefix for one in replaced)])
    for partition, samples in sorted(current.items()):
        for first in range(0, len(samples), AT_ONCE):
            part = samples[first : first + AT_ONCE]
            _adopt(client, partition, part)
            rows = [row for one in part for row in one.rows.values()]
            result.values += len(rows)
            result.size_bytes += sum(row["size_bytes"] for row in rows)
        result.samples[partition] = len(samples)
    return result


def _found(store: TensorStore, namespace: str) -> tuple[list[_Found], list[str]]:
    """Return the samples, and the prefixes of earlier controllers' values without an entry."""
    fields: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    for row in store.rows():
        owner, _, key = row["key"].partition("/")  # a field may contain slashes
        index, _, name = key.partition("@")
        if owner and index.isdigit():
            fields[owner, int(index)][name] = row
    entries = store.read([rows[""]["key"] for rows in fields.values() if "" in rows])
    found, orphans = [], []
    for (owner, index), rows in fields.items():
        entry = rows.pop("", None)
        if entry is not None:
            content = entries[entry["key"]].array.tobytes()
            sample = msgspec.msgpack.decode(content, type=Sample)
            found.append(_Found(owner, index, rows, sample))
        elif owner != namespace:
            orphans.append(f"{owner}/{index}@")
    return found, orphans


def _latest(
    found: Iterable[_Found], namespace: str
) -> tuple[dict[str, list[_Found]], list[_Found]]:
    """Return the latest sample of each key by partition, and the replaced ones."""
    by_key: dict[tuple[str, str], _Found] = {}
    kept: dict[str, list[_Found]] = defaultdict(list)
    replaced = []
    for one in sorted(found, key=lambda one: (one.namespace == namespace, one.sample.order)):
        if one.sample.key is None:
            kept[one.sample.partition].append(one)
            continue
        place = (one.sample.partition, one.sample.key)
        if place in by_key:
            replaced.append(by_key[place])
        by_key[place] = one
    for one in by_key.values():
        kept[one.sample.partition].append(one)
    return kept, replaced


def _adopt(client: Any, partition: str, samples: Sequence[_Found]) -> None:
    """Move samples to indexes of the controller, and notify it of fields and tags."""
    manager = client.storage_manager
    namespace = manager.storage_client.namespace
    with_key = [one for one in samples if one.sample.key is not None]
    own = [one for one in samples if one.sample.key is None and one.namespace == namespace]
    without = [one for one in samples if one.sample.key is None and one.namespace != namespace]
    indexes = {id(one): one.index for one in own}
    if with_key:
        keys = [one.sample.key for one in with_key]
        meta = client.kv_retrieve_meta(keys=keys, partition_id=partition, create=True)
        indexes |= dict(zip(map(id, with_key), meta.global_indexes, strict=True))
        meta.update_custom_meta([one.sample.tags for one in with_key])
    if without:
        names = sorted({name for one in without for name in one.rows})
        new = client.get_meta(
            data_fields=names, batch_size=len(without), partition_id=partition, mode="insert"
        )
        indexes |= dict(zip(map(id, without), new.global_indexes, strict=True))
    moves = {one.prefix: f"{namespace}/{indexes[id(one)]}@" for one in samples}
    manager.storage_client.store.move({old: new for old, new in moves.items() if old != new})
    for name, fields, places in _schemas(samples, indexes):
        notice = manager.notify_data_update(partition, places, {name: fields})
        client._run_coroutine(notice)  # noqa: SLF001 the client has no public method for it
    if with_key:
        client.set_custom_meta(meta)


def _schemas(
    samples: Sequence[_Found], indexes: dict[int, int]
) -> Iterator[tuple[str, dict[str, Any], list[int]]]:
    """Yield each field with its schema and the indexes of the samples that have it."""
    having = [
        (name, row["codec"], row["dtype"], indexes[id(one)], tuple(row["shape"]))
        for one in samples
        for name, row in one.rows.items()
    ]
    for (name, codec, dtype), part in groupby(sorted(having), key=lambda one: one[:3]):
        places, shapes = zip(*(one[3:] for one in part), strict=True)
        yield name, _schema(codec, dtype, list(shapes)), list(places)


def _schema(codec: str, dtype: str, shapes: list[tuple[int, ...]]) -> dict[str, Any]:
    if codec == MSGPACK:
        return {"dtype": None, "shape": None, "is_nested": False, "is_non_tensor": True}
    is_nested = len(set(shapes)) > 1
    schema: dict[str, Any] = {
        "dtype": TORCH_TYPES[dtype],
        "shape": torch.Size(shapes[0]),
        "is_nested": is_nested,
        "is_non_tensor": False,
    }
    if is_nested:
        schema["per_sample_shapes"] = shapes
    return schema
