"""Subprocesses that probe the objects named in a configuration, with a time limit.

The gateway imports no environment. A child without secrets does, in a temporary folder, and its
whole process group is killed at the time limit.
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

PROBE_COMMAND: Final = (sys.executable, "-P", "-m", "rollouts.fleet.probe.command")
PROBES_AT_ONCE: Final = 4
LONGEST_ANSWER_BYTES: Final = 1 << 20
_room = BoundedSemaphore(PROBES_AT_ONCE)


class TooManyProbes(Exception):
    """The limit on concurrent probes is reached."""


def run_probe(request: ProbeRequest, *, seconds: float) -> Outcome:
    """Probe an object in a subprocess for at most `seconds`; a failure is part of the outcome.

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
    home.mkdir(mode=0o700)
    user = child_environment.environment_user()
    if user is not None:
        folder.chmod(0o711)
        os.chown(home, user.uid, user.gid)
    # Without secrets, such as the token of the cluster.
    variables = child_environment.with_user(child_environment.for_environments(os.environ))
    variables |= {"HOME": str(home), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with request_path.open("rb") as reading, answer_path.open("wb") as writing:
        child = subprocess.Popen(
            PROBE_COMMAND,
            stdin=reading,
            stdout=writing,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=variables,
            start_new_session=True,
            **({} if user is None else child_environment.popen_options()),
        )
    try:
        code = child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return _interrupted(answer_path, f"it did not finish within {seconds:g} s")
    finally:
        # Also kills processes that it started and left behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return _read(answer_path, code)


def _read(answered: Path, code: int) -> Outcome:
    """Return the answer of a probe that has ended with an exit code."""
    outcome = _last_outcome(answered)
    if outcome is not None and not outcome.stage:
        return outcome
    how = (
        f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    )
    return _interrupted(answered, f"its process {how}")


def _interrupted(answered: Path, trouble: str) -> Outcome:
    """Return the result of a probe that was cut off, as trouble of the part it was in."""
    outcome = _last_outcome(answered)
    if outcome is None or not outcome.stage:
        return outcome or Outcome(trouble=trouble)
    if outcome.stage == "policy":
        return msgspec.structs.replace(outcome, policy_trouble=trouble, stage="")
    return msgspec.structs.replace(outcome, trouble=trouble, stage="")


def _last_outcome(answered: Path) -> Outcome | None:
    """Return the last whole line of the answer; None without one."""
    with answered.open("rb") as reading:
        lines = reading.read(LONGEST_ANSWER_BYTES).split(b"\n")[:-1]
    try:
        return msgspec.json.decode(lines[-1], type=Outcome) if lines else None
    except msgspec.DecodeError:
        return None
