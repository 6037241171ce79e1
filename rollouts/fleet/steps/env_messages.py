"""Messages between a worker and its env processes, their channel, and their shared memory.

Step data is not part of the messages: it is in an :class:`EnvBlock` that both sides map. A message
only names the new rows, in one system call. The memory has no name: it is passed as a descriptor
and freed with its last holder.
"""

import mmap
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rolldeck.wire import InfoWindow
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.storable import cleaned
from runs.config.rules.sections import EnvironmentConfig

_LENGTH_BYTES: Final = 4
_MOST_AT_ONCE: Final = 1 << 16
_ALIGNMENT: Final = 64
"""Size of a cache line: no two columns share one."""


class Setup(Struct, frozen=True, array_like=True, tag=True):
    """Environments to build; the first message to an env process."""

    environment: EnvironmentConfig
    seeds: list[int]
    """First seed of each environment, ``[rows]``."""
    is_info_immediate: bool = False
    """Whether values of `info` are reported before the results of their step, not once a second."""


class Step(Struct, frozen=True, array_like=True, tag=True):
    """Step `rows` with their actions in the block."""

    rows: list[int]


class Build(Struct, frozen=True, array_like=True, tag=True):
    """Replace a row's environment."""

    row: int
    seed: int


class Record(Struct, frozen=True, array_like=True, tag=True):
    """Record a row's next episode to a file."""

    row: int
    request_id: str
    video: str


class Close(Struct, frozen=True, array_like=True, tag=True):
    """Close every environment and end the process."""


class Ready(Struct, frozen=True, array_like=True, tag=True):
    """The process knows its spaces; the block is mapped."""

    observation: Space
    action: Space


class Began(Struct, frozen=True, array_like=True, tag=True):
    """A row has a new environment; its first observation is in the block."""

    row: int


class EnvCrashed(Struct, frozen=True, array_like=True, tag=True):
    """A row's environment raised, or returned an invalid value, and was dropped."""

    row: int
    error: str
    is_invalid_value: bool = False


class Recorded(Struct, frozen=True, array_like=True, tag=True):
    """The recorded episode of a row has ended."""

    row: int
    request_id: str
    total_return: float = 0.0
    length: int = 0
    outcome: str = ""
    error: str = ""
    """Why the recording failed; the episode continued without it."""


class InfoReport(Struct, frozen=True, array_like=True, tag=True):
    """Numeric values of `info` since the process' last report, over all its rows."""

    window: InfoWindow


class StepResult(Struct, frozen=True, array_like=True, tag=True):
    """The results of stepping `rows` are in the block."""

    rows: list[int]
    seconds: float
    """Time spent in the environments."""
    crashed: list[EnvCrashed] = []
    """Those of `rows` that ended their episode in this step and cannot begin another."""


class OutsideBounds(Struct, frozen=True, array_like=True, tag=True):
    """An observation of a row was outside the bounds of its space, for the first time."""

    row: int
    text: str


ToProcess = Setup | Step | Build | Record | Close
FromProcess = Ready | Began | EnvCrashed | OutsideBounds | Recorded | InfoReport | StepResult


class Stepped(NamedTuple):
    """Results of stepping N rows; the arrays are copies."""

    rows: NDArray[np.intp]
    """``[N]``."""
    obs: NDArray[Any]
    """``[N, …]``, to act upon next; the first of a new episode where an episode ended."""
    reward: NDArray[np.float64]
    """``[N]``, like the two below."""
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    info: NDArray[np.float32]
    """``[N, K]``, values of the K stored keys of `info`; NaN where the step had no number."""
    finals: list[tuple[int, NDArray[Any]]]
    """Index among the N, and the last observation of the episode that ended there."""
    seconds: float
    """Time spent in the environments."""
    crashed: Sequence[EnvCrashed] = ()
    """Rows whose environment is lost after this step, which ended its episode."""


AnyMessage = Ready | Began | EnvCrashed | OutsideBounds | Recorded | InfoReport | Stepped
"""Message of an env process as a worker reads it."""


class Channel:
    """One end of a socket that carries length-prefixed messages in order."""

    def __init__(self, end: socket.socket, *, receives: Any) -> None:
        """Take ownership of one end of a pair of stream sockets that receives such messages."""
        self._socket = end
        self._decode = msgspec.msgpack.Decoder(receives).decode
        self._encode = msgspec.msgpack.Encoder().encode
        self._unread = b""

    def fileno(self) -> int:
        """Return the descriptor to wait on; when it is readable, call `receive`."""
        return self._socket.fileno()

    def send(self, message: Struct) -> None:
        """Send a message, with U+FFFD for characters that UTF-8 does not have.

        Raises:
            OSError: If the other end is closed.
        """
        try:
            content = self._encode(message)
        except UnicodeEncodeError:
            content = self._encode(cleaned(msgspec.to_builtins(message)))
        self._socket.sendall(len(content).to_bytes(_LENGTH_BYTES, "little") + content)

    def receive(self) -> list[Any]:
        """Wait for at least one message and return all that have arrived.

        Raises:
            EOFError: If the other end is closed and no data is left.
            OSError: If the connection broke.
        """
        messages: list[Any] = []
        while not messages:
            came = self._socket.recv(_MOST_AT_ONCE)
            if not came:
                raise EOFError
            unread = self._unread + came
            at = 0
            while len(unread) - at >= _LENGTH_BYTES:
                begin = at + _LENGTH_BYTES
                end = begin + int.from_bytes(unread[at:begin], "little")
                if end > len(unread):
                    break
                messages.append(self._decode(unread[begin:end]))
                at = end
            self._unread = unread[at:]
        return messages

    def close(self) -> None:
        self._socket.close()


class EnvBlock:
    """Columns for R rows; the worker writes actions and the process writes the rest."""

    def __init__(
        self, descriptor: int, *, rows: int, observation: Space, action: Space, keys: int = 0
    ) -> None:
        """Map the memory of `descriptor`, grown as needed; the descriptor may then be closed.

        `keys` is the number of stored keys of `info`.
        """
        forms: list[tuple[tuple[int, ...], Any]] = [
            ((rows, *action.shape), action.array_dtype),
            ((rows, *observation.shape), observation.array_dtype),
            ((rows, *observation.shape), observation.array_dtype),
            ((rows,), np.float64),
            ((rows,), np.bool_),
            ((rows,), np.bool_),
            ((rows, keys), np.float32),
        ]
        sizes = []
        for shape, dtype in forms:
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            sizes.append(-(-size // _ALIGNMENT) * _ALIGNMENT)
        if os.fstat(descriptor).st_size < sum(sizes):
            os.ftruncate(descriptor, sum(sizes))
        memory = mmap.mmap(descriptor, sum(sizes))
        columns: list[NDArray[Any]] = []
        begin = 0
        for (shape, dtype), size in zip(forms, sizes, strict=True):
            columns.append(np.ndarray(shape, dtype, buffer=memory, offset=begin))
            begin += size
        self.actions, self.obs, self.final_obs = columns[:3]
        """``[R, …]``; `final_obs` is valid only where an episode has just ended."""
        self.reward, self.terminated, self.truncated = columns[3:6]
        """``[R]``."""
        self.info = columns[6]
        """``[R, K]``."""


def anonymous_memory() -> int:
    """Return a descriptor of empty memory that a child process can inherit."""
    if sys.platform == "linux":
        return os.memfd_create("rolldeck-envs")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
