"""Start processes that try what a configuration names, and end them in time.

The web side imports no environment and no Ray: a child without secrets does, in a folder of its
own, and its whole process group is ended when its time is over.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import BoundedSemaphore
from typing import Final

import msgspec

from rollouts.fleet.environments.probe import Outcome, Wanted
from rollouts.fleet.worker import child_environment

TRIAL_SECONDS: Final = 20.0
TRIALS_AT_ONCE: Final = 4
LONGEST_ANSWER_BYTES: Final = 1 << 20
_room = BoundedSemaphore(TRIALS_AT_ONCE)


class TooManyTrials(Exception):
    """As many processes are trying configurations as may at once."""

    retry_after_seconds = 5


def attempt(wanted: Wanted, *, seconds: float = TRIAL_SECONDS) -> Outcome:
    """Try something in a process of its own; how it failed is part of the outcome.

    Raises:
        TooManyTrials: If others are at it.
    """
    if not _room.acquire(blocking=False):
        raise TooManyTrials("other configurations are being checked: try again in a moment")
    try:
        with tempfile.TemporaryDirectory(prefix="rolldeck-trial-") as folder:
            return _within(Path(folder), wanted, seconds)
    finally:
        _room.release()


def _within(folder: Path, wanted: Wanted, seconds: float) -> Outcome:
    asked, answered = folder / "asked", folder / "answered"
    asked.write_bytes(msgspec.json.encode(wanted))
    home = folder / "home"
    home.mkdir()
    with asked.open("rb") as reading, answered.open("wb") as writing:
        child = subprocess.Popen(
            [sys.executable, "-m", "rollouts.fleet.environments.probe"],
            stdin=reading,
            stdout=writing,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=_surroundings(home, wanted),
            start_new_session=True,
        )
    try:
        code = child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Outcome(trouble=f"it was not done within {seconds:.0f} s")
    finally:
        # Also what it has started itself and left behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return _read(answered, code)


def _surroundings(home: Path, wanted: Wanted) -> dict[str, str]:
    """Return the child's environment: no secret of the platform is in it."""
    # Ray's own, such as the token of its cluster, are for Ray alone.
    kept = child_environment.for_environments(os.environ)
    if wanted.kind == "cluster":
        kept |= {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    return {**kept, "HOME": str(home), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _read(answered: Path, code: int) -> Outcome:
    with answered.open("rb") as reading:
        content = reading.read(LONGEST_ANSWER_BYTES)
    try:
        return msgspec.json.decode(content, type=Outcome)
    except msgspec.DecodeError:
        return Outcome(trouble=_ending(code))


def _ending(code: int) -> str:
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"
