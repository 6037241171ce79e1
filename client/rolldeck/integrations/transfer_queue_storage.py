"""Storage client and manager of TransferQueue for the store of a run.

Values are stored under ``<controller>/<index>@<field>``. An entry ``<controller>/<index>@`` with
partition, key and tags of a sample is stored with its fields, so that
:mod:`rolldeck.integrations.transfer_queue_restore` can give the samples to a new controller.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from transfer_queue.metadata import extract_field_schema
from transfer_queue.storage.clients.base import StorageKVClient
from transfer_queue.storage.managers.base import KVStorageManager
from transfer_queue.utils.zmq_utils import ZMQMessage, ZMQRequestType

from rolldeck.safetensors import decode, encode, kind_of
from rolldeck.tensor_store import TensorStore, Value, bytes_value
from rolldeck.tensors import array_of

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
        config: `url` and `run`; `token` is taken from ``ROLLDECK_TOKEN`` by default.

    Raises:
        ValueError: If `url` or `run` is missing.
    """
    for name in ("url", "run"):
        if not config.get(name):
            raise ValueError(f"backend.{BACKEND}.{name}: required")
    token = config.get("token") or os.environ.get("ROLLDECK_TOKEN")
    return TensorStore(config["url"], config["run"], token)


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
        named = zip(keys, values, strict=True)
        stored = {self._stored(key): value_of(key, value) for key, value in named}
        for index, sample in samples.items():
            content = _encoded(f"the tags of sample {sample.key or index}", sample)
            stored[self._stored(f"{index}@")] = bytes_value(content, MSGPACK)
        self.store.put(stored)

    def get(
        self,
        keys: list[str],
        shapes: Any = None,  # noqa: ARG002 stored with the values
        dtypes: Any = None,  # noqa: ARG002
        custom_backend_meta: Any = None,  # noqa: ARG002
    ) -> list[Any]:
        """Return values in the order of `keys`.

        Raises:
            NotFound: If a key does not exist.
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
        loop = asyncio.get_running_loop()
        values = self._generate_values(data)
        await loop.run_in_executor(None, self.storage_client.put_samples, keys, values, samples)
        self._stored_metadata = metadata
        await self.notify_data_update(partition, indexes, extract_field_schema(data))

    async def store_tags(self, metadata: Any) -> None:
        """Store the entries of samples, unless :meth:`put_data` has just stored them."""
        if metadata is self._stored_metadata:
            self._stored_metadata = None
            return
        loop = asyncio.get_running_loop()
        for part in metadata.chunk_by_partition():
            partition, indexes = part.partition_ids[0], part.global_indexes
            samples = await self._samples(partition, indexes, part.custom_meta)
            await loop.run_in_executor(None, self.storage_client.put_samples, [], [], samples)

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
