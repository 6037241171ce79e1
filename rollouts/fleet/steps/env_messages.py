"""Shape what a worker and its env processes tell each other, and carry it between them.

Numbers of steps are not in the messages: they lie in an
:class:`rollouts.fleet.steps.env_block.EnvBlock` that both map. A message only says which rows
of it are new, in one system call.
"""

import socket
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rollouts.fleet.policies.spaces import Space

_LENGTH_BYTES: Final = 4
_MOST_AT_ONCE: Final = 1 << 16


class Setup(Struct, frozen=True, array_like=True, tag=True):
    """What an env process must build; the first message to it."""

    spec: str
    kwargs: dict[str, Any]
    seeds: list[int]
    """First seed of each environment, ``[rows]``."""


class Step(Struct, frozen=True, array_like=True, tag=True):
    """Carry out the actions of `rows`, which are in the block."""

    rows: list[int]


class Build(Struct, frozen=True, array_like=True, tag=True):
    """Replace a row's environment."""

    row: int
    seed: int


class Record(Struct, frozen=True, array_like=True, tag=True):
    """Film a row's next episode into a file."""

    row: int
    order_id: str
    film: str


class Close(Struct, frozen=True, array_like=True, tag=True):
    """Close every environment and end."""


class Ready(Struct, frozen=True, array_like=True, tag=True):
    """The process knows its environments; the block is there."""

    observation: Space
    action: Space


class Began(Struct, frozen=True, array_like=True, tag=True):
    """A row's environment is new; the observation that begins its episode is in the block."""

    row: int


class Broke(Struct, frozen=True, array_like=True, tag=True):
    """A row's environment raised and is gone."""

    row: int
    error: str


class Recorded(Struct, frozen=True, array_like=True, tag=True):
    """A row's episode is over that was to be filmed."""

    row: int
    order_id: str
    total_return: float = 0.0
    length: int = 0
    outcome: str = ""
    error: str = ""
    """Why there is no film; the episode went on without."""


class Came(Struct, frozen=True, array_like=True, tag=True):
    """What followed the actions of `rows` is in the block."""

    rows: list[int]
    seconds: float
    """Spent in the environments."""


ToProcess = Setup | Step | Build | Record | Close
FromProcess = Ready | Began | Broke | Recorded | Came


class Stepped(NamedTuple):
    """What followed the actions of N rows; the arrays are the reader's own."""

    rows: NDArray[np.intp]
    """``[N]``."""
    obs: NDArray[Any]
    """``[N, …]``, to act upon next: the first of a new episode where the last one ended."""
    reward: NDArray[np.float64]
    """``[N]``, as the two below."""
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    finals: list[tuple[int, NDArray[Any]]]
    """Position among the N, last observation of the episode that ended there."""
    seconds: float
    """Spent in the environments."""


class Channel:
    """One end of a socket that carries messages in order, each behind its length."""

    def __init__(self, end: socket.socket, *, receives: Any) -> None:
        """Take the socket over.

        Args:
            end: Of a pair of stream sockets.
            receives: Type of the messages that come from the other end.
        """
        self._socket = end
        self._decode = msgspec.msgpack.Decoder(receives).decode
        self._encode = msgspec.msgpack.Encoder().encode
        self._unread = b""

    def fileno(self) -> int:
        """Return the descriptor to wait on: once it is readable, `receive` is due."""
        return self._socket.fileno()

    def send(self, message: Struct) -> None:
        """Send a message.

        Raises:
            OSError: If nobody holds the other end.
        """
        content = self._encode(message)
        self._socket.sendall(len(content).to_bytes(_LENGTH_BYTES, "little") + content)

    def receive(self) -> list[Any]:
        """Return all messages that are here, at least one; waits for it.

        Raises:
            EOFError: If nobody holds the other end and nothing is left.
            OSError: If the connection broke.
        """
        messages: list[Any] = []
        while not messages:
            came = self._socket.recv(_MOST_AT_ONCE)
            if not came:
                raise EOFError
            self._unread += came
            messages = self._whole_ones()
        return messages

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _whole_ones(self) -> list[Any]:
        messages = []
        at, unread = 0, self._unread
        while len(unread) - at >= _LENGTH_BYTES:
            begin = at + _LENGTH_BYTES
            end = begin + int.from_bytes(unread[at:begin], "little")
            if end > len(unread):
                break
            messages.append(self._decode(unread[begin:end]))
            at = end
        self._unread = unread[at:]
        return messages
