"""Subprocesses that probe the objects named in a configuration, with a time limit.

The web server imports no environment and no Ray. A child without secrets does, in a temporary
folder, and its whole process group is killed at the time limit.
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

from rollouts.fleet.probe.messages import Outcome, ProbeRequest
from rollouts.fleet.process import child_environment
from web.rules.errors import TooManyRequests

TRIAL_SECONDS: Final = 20.0
TRIALS_AT_ONCE: Final = 4
LONGEST_ANSWER_BYTES: Final = 1 << 20
_room = BoundedSemaphore(TRIALS_AT_ONCE)


class TooManyProbes(TooManyRequests):
    """The limit on concurrent probes is reached."""

    title = "Too many checks are under way"
    retry_after_seconds = 5


def attempt(request: ProbeRequest, *, seconds: float = TRIAL_SECONDS) -> Outcome:
    """Probe an object in a subprocess; a failure is part of the outcome.

    Raises:
        TooManyProbes: If too many probes are in progress.
    """
    if not _room.acquire(blocking=False):
        raise TooManyProbes("too many configurations are being checked: retry in a few seconds")
    try:
        with tempfile.TemporaryDirectory(prefix="rolldeck-trial-") as folder:
            return _within(Path(folder), request, seconds)
    finally:
        _room.release()


def _within(folder: Path, request: ProbeRequest, seconds: float) -> Outcome:
    request_path, answer_path = folder / "asked", folder / "answered"
    request_path.write_bytes(msgspec.json.encode(request))
    home = folder / "home"
    home.mkdir()
    with request_path.open("rb") as reading, answer_path.open("wb") as writing:
        child = subprocess.Popen(
            [sys.executable, "-m", "rollouts.fleet.probe.command"],
            stdin=reading,
            stdout=writing,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=_environment_variables(home, request),
            start_new_session=True,
        )
    try:
        code = child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Outcome(trouble=f"it did not finish within {seconds:.0f} s")
    finally:
        # Also kills processes that it started and left behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return _read(answer_path, code)


def _environment_variables(home: Path, request: ProbeRequest) -> dict[str, str]:
    """Return the child's environment variables, without the platform's secrets."""
    # Ray's own variables, such as its cluster token, are only for probes of Ray.
    kept = child_environment.for_environments(os.environ)
    if request.kind == "cluster":
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
