"""Backend ``rolldeck`` of TransferQueue 0.1.11, which verl V1 and NeMo-RL use.

The platform stores the samples durably. The first `transfer_queue.init` of a new controller gives
it the stored samples of earlier ones.

Values are stored under ``<controller>/<index>@<field>``. An entry ``<controller>/<index>@`` with
partition, key and tags of a sample is stored with its fields, so that :func:`restore` can give the
samples to a new controller.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from transfer_queue.client import AsyncTransferQueueClient, TransferQueueClient
from transfer_queue.metadata import extract_field_schema
from transfer_queue.storage.bootstrap.provider import StorageBootstrapProvider
from transfer_queue.storage.clients.base import StorageClientFactory, StorageKVClient
from transfer_queue.storage.managers.base import KVStorageManager, StorageManagerFactory
from transfer_queue.utils.zmq_utils import ZMQMessage, ZMQRequestType

from rolldeck.safetensors import array_of, decode, encode, kind_of
from rolldeck.tensor_store import SHARED_BYTES, TensorStore, Value, bytes_value

logger = logging.getLogger(__name__)


# Storage client and manager of TransferQueue for the store of a run.

BACKEND: Final = "rolldeck"
MSGPACK: Final = "msgpack"
# Codes of msgpack's extensions.
ARRAY: Final = 1
TENSOR: Final = 2
TORCH_BITS: Final = {
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
# The controller answers within milliseconds, unless it restarts.
ANSWER_SECONDS: Final = 30


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Entry of a sample, stored with its fields."""

    partition: str
    key: str | None
    """Key given by the user; None for a sample without one."""
    tags: dict[str, Any] = {}
    order: int = 0
    """Time of the push in ns; the latest entry of a key counts."""


def store_of(config: Mapping[str, Any]) -> TensorStore:
    """Return the store of a backend's configuration.

    Args:
        config: `run`; `url` and `token` are taken from ``ROLLDECK_URL`` and ``ROLLDECK_TOKEN`` by
            default.

    Raises:
        ValueError: If `run` is missing.
    """
    if not config.get("run"):
        raise ValueError(f"backend.{BACKEND}.run: required")
    return TensorStore(config.get("url") or None, config["run"], config.get("token") or None)


class RolldeckStorageClient(StorageKVClient):
    """Values of one controller, in the store of a run."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Configure the client without opening a socket.

        Args:
            config: As for :func:`store_of`, and `namespace`, the identity of the controller.
        """
        super().__init__(config)
        self.store = store_of(config)
        self.namespace: str = config["namespace"]

    def put(self, keys: list[str], values: list[Any]) -> None:
        """Store values; they are durable on return.

        Raises:
            ValueError: If a value is neither a dense tensor nor storable as msgpack.
            RolldeckError: If the platform refuses a request or is unreachable.
        """
        self.put_samples(keys, values, {})

    def put_samples(
        self, keys: Sequence[str], values: Sequence[Any], samples: Mapping[int, Sample]
    ) -> None:
        """Store values, and behind them the entries of samples by index."""
        self.store.put(self._values_of(keys, values, samples))

    async def put_samples_async(
        self, keys: Sequence[str], values: Sequence[Any], samples: Mapping[int, Sample]
    ) -> None:
        """Store values as :meth:`put_samples` does; small ones of several tasks share requests."""
        stored = self._values_of(keys, values, samples)
        if sum(value.size_bytes for value in stored.values()) <= SHARED_BYTES:
            await asyncio.wrap_future(self.store.submit(stored))
        else:
            await asyncio.get_running_loop().run_in_executor(None, self.store.put, stored)

    def _values_of(
        self, keys: Sequence[str], values: Sequence[Any], samples: Mapping[int, Sample]
    ) -> dict[str, Value]:
        named = zip(keys, values, strict=True)
        stored = {self._stored(key): value_of(key, value) for key, value in named}
        for index, sample in samples.items():
            content = _encoded(f"the tags of sample {sample.key or index}", sample)
            stored[self._stored(f"{index}@")] = bytes_value(content, MSGPACK)
        return stored

    def get(
        self,
        keys: list[str],
        shapes: Any = None,  # noqa: ARG002 stored with the values
        dtypes: Any = None,  # noqa: ARG002
        custom_backend_meta: Any = None,  # noqa: ARG002
    ) -> list[Any]:
        """Return values in the order of `keys`.

        Raises:
            NotFoundError: If a key does not exist.
        """
        found = self.store.read([self._stored(key) for key in keys])
        return [object_of(found[self._stored(key)]) for key in keys]

    def clear(self, keys: list[str], custom_backend_meta: Any = None) -> None:  # noqa: ARG002
        """Delete values; unknown keys are ignored."""
        self.store.delete(keys=[self._stored(key) for key in keys])

    def clear_samples(self, indexes: Sequence[int]) -> None:
        """Delete samples with all their fields."""
        self.store.delete(prefixes=[self._stored(f"{index}@") for index in indexes])

    def _stored(self, key: str) -> str:
        return f"{self.namespace}/{key}"


class RolldeckStorageManager(KVStorageManager):
    """Manager that stores each sample with its partition, key and tags."""

    def __init__(
        self, controller_info: Any, config: Mapping[str, Any], zmq_context: Any = None
    ) -> None:
        """Connect to the controller.

        Args:
            controller_info: Address and identity of the controller.
            config: As for :func:`store_of`.
            zmq_context: Ignored, as by all key-value backends.
        """
        settings = {**config, "client_name": BACKEND, "namespace": controller_info.id}
        super().__init__(controller_info, settings, zmq_context=zmq_context)
        self._stored_metadata: Any = None

    async def put_data(self, data: Any, metadata: Any, data_parser: Any = None) -> None:
        """Store the fields and entries of samples, then notify the controller.

        Raises:
            NotImplementedError: If a parser is given.
            ValueError: If the batch sizes differ, or a value cannot be stored.
        """
        if data_parser is not None:
            raise NotImplementedError(f"data_parser is not supported by the backend {BACKEND}")
        indexes = metadata.global_indexes
        if data.batch_size[0] != len(indexes):
            raise ValueError(f"{data.batch_size[0]} rows of data for {len(indexes)} samples")
        if not indexes:
            return
        partition = metadata.partition_ids[0]
        keys = self._generate_keys(list(data.keys()), indexes)
        samples = await self._samples(partition, indexes, metadata.custom_meta)
        values = self._generate_values(data)
        await self.storage_client.put_samples_async(keys, values, samples)
        self._stored_metadata = metadata
        await self.notify_data_update(partition, indexes, extract_field_schema(data))

    async def store_tags(self, metadata: Any) -> None:
        """Store the entries of samples, unless :meth:`put_data` has just stored them."""
        if metadata is self._stored_metadata:
            self._stored_metadata = None
            return
        for part in metadata.chunk_by_partition():
            partition, indexes = part.partition_ids[0], part.global_indexes
            samples = await self._samples(partition, indexes, part.custom_meta)
            await self.storage_client.put_samples_async([], [], samples)

    async def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Refuse a snapshot: the platform has the samples as they are now.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{checkpoint_dir}: the backend {BACKEND} has no snapshots")

    async def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Refuse a snapshot.

        Raises:
            NotImplementedError: Always.
        """
        await self.save_checkpoint(checkpoint_dir)

    async def clear_data(self, metadata: Any) -> None:
        """Delete samples with all their fields, which the controller forgets as well."""
        self.storage_client.clear_samples(metadata.global_indexes)

    async def _samples(
        self, partition: str, indexes: Sequence[int], tags: Sequence[dict[str, Any]]
    ) -> dict[int, Sample]:
        ask = self._keys_of(partition, indexes)
        future = asyncio.run_coroutine_threadsafe(ask, self._notify_loop)
        keys = await asyncio.wrap_future(future)
        order = time.time_ns()
        return {
            index: Sample(partition=partition, key=key, tags=dict(tag), order=order)
            for index, key, tag in zip(indexes, keys, tags, strict=True)
        }

    async def _keys_of(self, partition: str, indexes: Sequence[int]) -> list[str | None]:
        """Return the users' keys of samples from the controller."""
        request = ZMQMessage.create(
            request_type=ZMQRequestType.KV_RETRIEVE_KEYS,
            sender_id=self.storage_manager_id,
            receiver_id=self.controller_info.id,
            body={"global_indexes": list(indexes), "partition_id": partition},
        )
        async with self.notify_pool.alease(self.controller_info) as socket:
            try:
                await socket.send_multipart(request.serialize())
                answer = socket.recv_multipart(copy=False)
                parts = await asyncio.wait_for(answer, ANSWER_SECONDS)
            except BaseException:
                # A late answer would be read as that of the next request.
                socket.close(linger=0)
                raise
        keys = ZMQMessage.deserialize(parts).body.get("keys") or [None] * len(indexes)
        return list(keys)


def value_of(key: str, value: Any) -> Value:
    """Return a tensor, or another object as msgpack, for the store.

    Raises:
        ValueError: If it can be stored as neither; the text begins with the key.
    """
    if not isinstance(value, torch.Tensor):
        return bytes_value(_encoded(key, value), MSGPACK)
    if value.is_nested or value.layout is not torch.strided:
        raise ValueError(f"{key}: a tensor with the layout {value.layout} cannot be stored")
    try:
        array = array_of(value)
    except TypeError:
        array = None
    if array is None or kind_of(array.dtype) is None:
        raise ValueError(f"{key}: a tensor of {value.dtype} cannot be stored")
    return Value(array)


def object_of(value: Value) -> Any:
    """Return a stored value as a tensor or object, on the CPU."""
    if value.codec == MSGPACK:
        return msgspec.msgpack.decode(value.array.tobytes(), ext_hook=_object_of)
    return _tensor_of(value.array)


def _tensor_of(array: NDArray[Any]) -> torch.Tensor:
    if not array.flags.aligned:
        array = array.copy()
    if array.dtype.names is None:
        return torch.from_numpy(array)
    (kind,) = array.dtype.names
    integers = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(array.view(integers)).view(TORCH_BITS[kind])


def _encoded(name: str, value: object) -> bytes:
    try:
        return msgspec.msgpack.encode(value, enc_hook=_extension)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}; tensors and msgpack values can be stored") from error


def _extension(value: Any) -> Any:
    """Return an array or tensor inside an object as an extension of msgpack."""
    if isinstance(value, torch.Tensor):
        return msgspec.msgpack.Ext(TENSOR, encode({"": value_of("a tensor", value).array}))
    if isinstance(value, np.ndarray):
        return msgspec.msgpack.Ext(ARRAY, encode({"": value}))
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a value of the type {type(value).__name__} cannot be stored")


def _object_of(code: int, content: memoryview) -> Any:
    array = decode(bytearray(content))[""]
    return _tensor_of(array) if code == TENSOR else array


# Give the stored samples of earlier controllers of TransferQueue to the present one.

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
    having = [
        (name, row["codec"], row["dtype"], indexes[id(one)], tuple(row["shape"]))
        for one in samples
        for name, row in one.rows.items()
    ]
    for (name, codec, dtype), part in groupby(sorted(having), key=lambda one: one[:3]):
        places, shapes = zip(*(one[3:] for one in part), strict=True)
        is_packed, is_nested = codec == MSGPACK, len(set(shapes)) > 1
        schema = {
            "dtype": None if is_packed else TORCH_TYPES[dtype],
            "shape": None if is_packed else torch.Size(shapes[0]),
            "is_nested": is_nested and not is_packed,
            "is_non_tensor": is_packed,
        }
        if schema["is_nested"]:
            schema["per_sample_shapes"] = list(shapes)
        notice = manager.notify_data_update(partition, list(places), {name: schema})
        client._run_coroutine(notice)  # noqa: SLF001 the client has no public method for it
    if with_key:
        client.set_custom_meta(meta)


# Backend ``rolldeck`` of TransferQueue 0.1.11, which verl V1 and NeMo-RL use.


def register() -> None:
    """Register the backend in this process.

    Every process that calls `transfer_queue.init` needs it: set it as Ray's
    `worker_process_setup_hook`.
    """
    StorageClientFactory.register(BACKEND)(RolldeckStorageClient)
    StorageManagerFactory.register(BACKEND)(RolldeckStorageManager)
    StorageBootstrapProvider.register_provider(BACKEND)(_bootstrap)
    AsyncTransferQueueClient.async_set_custom_meta = _set_tags


# TransferQueue sends tags to the controller without the storage manager.
_send_tags: Final = AsyncTransferQueueClient.async_set_custom_meta


async def _set_tags(client: Any, metadata: Any) -> None:
    """Store the tags of samples, then send them to the controller."""
    manager = getattr(client, "storage_manager", None)
    if isinstance(manager, RolldeckStorageManager):
        await manager.store_tags(metadata)
    await _send_tags(client, metadata)


def _bootstrap(conf: Any) -> dict[str, Any]:
    """Give the stored samples to a new controller, unless `restore` is false."""
    settings = conf.backend[BACKEND]
    if settings.get("restore", True):
        client = TransferQueueClient(f"{BACKEND}-restore", conf.controller.zmq_info)
        try:
            client.initialize_storage_manager(BACKEND, settings)
            restored = restore(client)
        finally:
            client.close()
        logger.info("restored samples by partition: %s", restored.samples)
    return {}
