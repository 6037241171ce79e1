"""Process of an environment with its own interpreter: calls over pipes, a JSON object per line."""

import logging
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from rollouts.fleet.groups.errors import LessonFailed, SamplingStopped
from rollouts.fleet.process import environment_user

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.1
ERROR_LINES: Final = 20
SHOWN: Final = 300

Result = msgspec.Raw


class CallError(Struct, frozen=True):
    """Error of a call."""

    kind: str
    message: str


class Reply(Struct, frozen=True):
    """Message of the host: the result or the error of a call."""

    id: int
    result: msgspec.Raw = msgspec.Raw()
    error: CallError | None = None


class HostProcess:
    """A running host; thread-safe. All calls fail once it has ended."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], *, name: str) -> None:
        """Start the process.

        Args:
            command: Interpreter and script.
            variables: All its environment variables.
            name: Name in errors, such as ``verifiers:gsm8k``.

        Raises:
            LessonFailed: ``dependency_missing`` if the interpreter cannot be started.
        """
        self._name = name
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._pending: dict[int, Future[Result]] = {}
        self._numbers = 0
        self._errors: deque[str] = deque(maxlen=ERROR_LINES)
        self._ending = ""
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                **environment_user.popen_options(),
            )
        except OSError as error:
            raise LessonFailed(
                "dependency_missing", f"{name} needs the interpreter {command[0]}: {error}"
            ) from error
        self._logs = self._thread(self._read_errors)
        self._thread(self._read_replies)

    @property
    def is_alive(self) -> bool:
        """Whether calls are possible."""
        return not self._ending

    def submit(self, call: str, arguments: Mapping[str, Any]) -> Future[Result]:
        """Send a call; return its future result, which fails with `LessonFailed`."""
        future: Future[Result] = Future()
        with self._lock:
            if self._ending:
                future.set_exception(LessonFailed("environment_failed", self._ending))
                return future
            self._numbers += 1
            number = self._numbers
            self._pending[number] = future
        self._write({"id": number, "call": call, **arguments})
        return future

    def wait(
        self, future: Future[Result], *, seconds: float, stop: threading.Event | None = None
    ) -> Result:
        """Return the result of a call.

        Raises:
            LessonFailed: If the call failed, or did not end in time, which ends the process.
            SamplingStopped: If `stop` is set.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return future.result(timeout=POLL_SECONDS)
            except TimeoutError:
                if stop is not None and stop.is_set():
                    raise SamplingStopped from None
                if time.monotonic() > deadline:
                    self._fail(f"{self._name}: no response within {seconds:g} s; process ended")

    def close(self) -> None:
        """End the process, its tool servers included."""
        self._fail(f"{self._name}: the environment was closed")

    def _write(self, message: Mapping[str, Any]) -> None:
        # A host that does not read blocks the writer, but not `_fail`, which ends the host.
        assert self._process.stdin is not None  # noqa: S101 opened above
        with self._writing:
            try:
                self._process.stdin.write(msgspec.json.encode(message) + b"\n")
                self._process.stdin.flush()
            except (OSError, ValueError):
                logger.info("%s: the host ended before call %d", self._name, message["id"])

    def _read_replies(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 opened above
        with self._process.stdout as lines:
            for line in lines:
                try:
                    self._settle(msgspec.json.decode(line, type=Reply))
                except (msgspec.DecodeError, KeyError) as error:
                    shown = line[:SHOWN].decode(errors="replace").strip()
                    self._fail(f"{self._name}: malformed message of the host, {error}: {shown}")
        self._process.wait()
        self._logs.join(1)
        last = "; ".join(self._errors)
        self._fail(
            f"{self._name}: the host ended with exit code {self._process.returncode}: {last}"
        )

    def _settle(self, reply: Reply) -> None:
        """Store the result of a call; raise KeyError if no such call is pending."""
        with self._lock:
            if self._ending:
                return
            future = self._pending.pop(reply.id)
        if reply.error is not None:
            text = f"{self._name}: {reply.error.message}"
            future.set_exception(LessonFailed(reply.error.kind, text))
        else:
            future.set_result(reply.result)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 opened above
        with self._process.stderr as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                self._errors.append(text[:SHOWN])
                logger.info("%s: %s", self._name, text)

    def _fail(self, text: str) -> None:
        """End the process and fail all pending calls; the first reason counts."""
        with self._lock:
            if self._ending:
                return
            self._ending = text
            pending, self._pending = self._pending, {}
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        for future in pending.values():
            future.set_exception(LessonFailed("environment_failed", text))
        self._process.wait()
        assert self._process.stdin is not None  # noqa: S101 opened above
        with self._writing, suppress(OSError):
            self._process.stdin.close()

    def _thread(self, target: Any) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True, name=f"{self._name} host")
        thread.start()
        return thread
