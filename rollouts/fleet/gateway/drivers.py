"""The driver processes of a gateway."""

import logging
import queue
import select
import subprocess
import sys
import time
from typing import IO, Final, cast

import msgspec

from rollouts.fleet.gateway.messages import CALL_SECONDS, Answer

logger = logging.getLogger(__name__)

DRIVERS: Final = 2
"""Calls at once, so that a launch, which waits for its manager, does not delay a question."""
DRIVER_COMMAND: Final = (sys.executable, "-P", "-m", "rollouts.fleet.gateway.driver")
_CHUNK_BYTES: Final = 1 << 16


class _Unanswered(Exception):
    """A driver has ended, or has not answered in time."""


class Drivers:
    """Processes that are started when they are needed, and replaced when they hang."""

    def __init__(self, address: str) -> None:
        """Start no process yet; `address` is that of Ray's head."""
        self._address = address
        # The last one used comes first: with few calls there is only one process.
        self._idle: queue.LifoQueue[subprocess.Popen[bytes] | None] = queue.LifoQueue()
        for _ in range(DRIVERS):
            self._idle.put(None)

    def ask(self, call: bytes) -> bytes:
        """Run a call, a line of JSON, and return the line of its answer."""
        deadline = time.monotonic() + CALL_SECONDS
        try:
            driver = self._idle.get(timeout=CALL_SECONDS)
        except queue.Empty:
            return unreachable(f"earlier calls to {self._address} have not returned")
        try:
            if driver is None or driver.poll() is not None:
                driver = subprocess.Popen(
                    [*DRIVER_COMMAND, self._address],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                )
            return _answer_of(driver, call, deadline=deadline)
        except (OSError, _Unanswered) as error:
            if driver is not None:
                driver.kill()
                driver.communicate()
            driver = None
            return unreachable(f"Ray at {self._address} {error}")
        finally:
            self._idle.put(driver)


def _answer_of(driver: subprocess.Popen[bytes], call: bytes, *, deadline: float) -> bytes:
    calls, answers = cast(IO[bytes], driver.stdin), cast(IO[bytes], driver.stdout)
    calls.write(call + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([answers], [], [], left)[0]:
            raise _Unanswered(f"did not answer within {CALL_SECONDS:.0f} s")
        part = answers.read(_CHUNK_BYTES)
        if not part:
            raise _Unanswered("did not answer: the driver has ended")
        answer += part
    return answer


def unreachable(reason: str) -> bytes:
    """Return the answer for a cluster that does not respond."""
    return msgspec.json.encode(Answer(failure="unreachable", reason=reason))
