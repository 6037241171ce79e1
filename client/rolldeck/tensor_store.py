"""Tensors of a run by key, stored durably by the platform."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.errors import InvalidMessageError, InvalidRequestError
from rolldeck.http import Call, PlatformClient

PART_BYTES: Final = 16 << 20
"""Size at which a push is divided into several requests."""
PART_KEYS: Final = 4096
SHARED_BYTES: Final = 1 << 20
"""Size up to which pushes of several callers share a request."""
REQUESTS: Final = 2
"""Number of such requests at a time; further pushes wait, and share the next one."""
SAFETENSORS: Final = "application/octet-stream"


class Value(NamedTuple):
    """A stored value."""

    array: NDArray[Any]
    codec: str = ""
    """Codec of the bytes of a value that is no tensor; empty for a tensor."""

    @property
    def size_bytes(self) -> int:
        """Size of the bytes."""
        return self.array.nbytes


class _Push(NamedTuple):
    values: Mapping[str, Value]
    done: Future[None]


class TensorStore(PlatformClient):
    """Access to the stored tensors of one run; thread-safe."""

    def __init__(self, url: str | None = None, run: str = "", token: str | None = None) -> None:
        """Configure the access without opening a socket.

        Args:
            url: URL of the platform; ``ROLLDECK_URL`` by default.
            run: Name of the run.
            token: A token with the scope `trainer`; ``ROLLDECK_TOKEN`` by default.
        """
        super().__init__(url, run, token)
        self._path = f"{self._root}/tensors"
        self._lock = threading.Lock()
        self._waiting: list[_Push] = []
        self._senders: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Finish the pushes that wait, and close the sockets of its own connection."""
        with self._lock:
            senders, self._senders = self._senders, None
        if senders is not None:
            senders.shutdown()
        super().close()

    def put(self, values: Mapping[str, Value]) -> None:
        """Store values; existing keys are replaced. All are durable on return.

        Small pushes of several threads share requests. Requests have at most :data:`PART_BYTES` or
        one value. The keys of one request are stored together; a failure may leave earlier requests
        stored.

        Raises:
            InvalidMessageError: If an array has no dtype of safetensors.
            RolldeckError: If the platform refuses a request or is unreachable.
        """
        if sum(value.size_bytes for value in values.values()) <= SHARED_BYTES:
            self.submit(values).result()
            return
        if (error := self._error_of(values)) is not None:
            raise error

    def submit(self, values: Mapping[str, Value]) -> Future[None]:
        """Store values in another thread, as :meth:`put` does; done when they are durable.

        Two pushes of one key have no order until the first is done.
        """
        push = _Push(values, Future())
        with self._lock:
            if self._senders is None:
                self._senders = ThreadPoolExecutor(REQUESTS, thread_name_prefix="rolldeck tensors")
            self._waiting.append(push)
            self._senders.submit(self._send_waiting)
        return push.done

    def _send_waiting(self) -> None:
        """Send the pushes that wait in one request; an invalid one fails alone."""
        taken, together = self._take_waiting()
        if not taken:  # a request before this one has taken them
            return
        error = self._error_of(together)
        is_of_one = isinstance(error, InvalidMessageError | InvalidRequestError) and len(taken) > 1
        for push in taken:
            own = self._error_of(push.values) if is_of_one else error
            if own is None:
                push.done.set_result(None)
            else:
                push.done.set_exception(own)

    def _error_of(self, values: Mapping[str, Value]) -> Exception | None:
        """Send values; return the error of the first request that fails."""
        try:
            for part in _parts(values):
                self._send(part)
        except Exception as error:  # noqa: BLE001 the callers get it
            return error
        return None

    def _take_waiting(self) -> tuple[list["_Push"], dict[str, Value]]:
        """Take the first pushes that fit in a request, up to a repeated key."""
        together: dict[str, Value] = {}
        size = 0
        with self._lock:
            for count, push in enumerate(self._waiting):
                size += sum(value.size_bytes for value in push.values.values())
                is_full = size > PART_BYTES or len(together) + len(push.values) > PART_KEYS
                if count and (is_full or not together.keys().isdisjoint(push.values)):
                    break
                together.update(push.values)
            else:
                count = len(self._waiting)
            taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken, together

    def _send(self, part: Mapping[str, Value]) -> None:
        arrays = {key: value.array for key, value in part.items()}
        codecs = {key: value.codec for key, value in part.items() if value.codec}
        content = safetensors.encode(arrays, metadata=codecs)
        call = Call(method="PUT", path=self._path, content=content, content_type=SAFETENSORS)
        self._connection.send(call)

    def read(self, keys: Sequence[str]) -> dict[str, Value]:
        """Return values by key.

        Raises:
            NotFoundError: If a key does not exist.
            RolldeckError: If the platform refuses a request or is unreachable.
        """
        found: dict[str, Value] = {}
        # Parts of which the platform refused the size are divided.
        waiting = list(_runs(list(dict.fromkeys(keys))))
        while waiting:
            part = waiting.pop()
            path = f"{self._path}/read"
            try:
                answer = self._connection.send(
                    Call(method="POST", path=path, json={"keys": part}, accept=SAFETENSORS)
                )
            except InvalidRequestError as error:
                if error.code != "too_large" or len(part) == 1:
                    raise
                half = len(part) // 2
                waiting += [part[:half], part[half:]]
                continue
            # Writable, because torch requires it.
            content = bytearray(answer.data)
            codecs = safetensors.header_of(content).metadata
            for key, array in safetensors.decode(content).items():
                found[key] = Value(array, codecs.get(key, ""))
        return found

    def rows(self, prefix: str = "") -> Iterator[Any]:
        """Yield key, dtype, codec, shape, size and checksum of each value, in order of the keys."""
        return self._connection.rows(self._path, {"prefix": prefix, "limit": 5000})

    def delete(self, *, keys: Sequence[str] = (), prefixes: Sequence[str] = ()) -> int:
        """Delete values by key and by prefix; return their number. Unknown ones are ignored."""
        bodies = [{"keys": part} for part in _runs(keys)]
        bodies += [{"prefixes": part} for part in _runs(prefixes)]
        return sum(self._post("delete", body)["keys"] for body in bodies)

    def move(self, moves: Mapping[str, str]) -> int:
        """Replace prefixes of keys; return the number of renamed values.

        Up to :data:`PART_KEYS` prefixes are replaced together.

        Raises:
            ConflictError: If a value has a new key already.
        """
        parts = _runs(list(moves))
        return sum(
            self._post("move", {"moves": {old: moves[old] for old in part}})["keys"]
            for part in parts
        )

    def _post(self, verb: str, body: object) -> Any:
        return self._connection.json(Call(method="POST", path=f"{self._path}/{verb}", json=body))


def bytes_value(content: bytes, codec: str) -> Value:
    """Return encoded bytes as a value."""
    return Value(np.frombuffer(content, np.uint8), codec)


def _parts(values: Mapping[str, Value]) -> Iterator[dict[str, Value]]:
    part: dict[str, Value] = {}
    size = 0
    for key, value in values.items():
        if part and (size + value.size_bytes > PART_BYTES or len(part) == PART_KEYS):
            yield part
            part, size = {}, 0
        part[key] = value
        size += value.size_bytes
    if part:
        yield part


def _runs(keys: Sequence[str]) -> Iterable[Sequence[str]]:
    return (keys[first : first + PART_KEYS] for first in range(0, len(keys), PART_KEYS))
