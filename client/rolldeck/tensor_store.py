"""Tensors of a run by key, stored durably by the platform."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolldeck import safetensors
from rolldeck.errors import InvalidRequestError
from rolldeck.http import Call, PlatformClient

PART_BYTES: Final = 16 << 20
"""Size at which a push is divided into several requests."""
PART_KEYS: Final = 4096
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

    def put(self, values: Mapping[str, Value]) -> None:
        """Store values; existing keys are replaced. All are durable on return.

        Requests have at most :data:`PART_BYTES` or one value. The keys of one request are stored
        together; a failure may leave earlier requests stored.

        Raises:
            InvalidMessageError: If an array has no dtype of safetensors.
            RolldeckError: If the platform refuses a request or is unreachable.
        """
        for part in _parts(values):
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
