"""Temporary folder of one test run, removed with its processes however the run ends.

The first process of a run creates the folder and makes it the folder for temporary files of the
whole run: test processes, the servers that they start, and their children inherit TMPDIR. A guard
(tests/run_guard.py) waits for the end of the first process, even by SIGKILL. It then ends the
remaining processes and deletes the folder.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

GUARD: Final = Path(__file__).with_name("run_guard.py")
PREFIX: Final = "rd-"
# Ray appends up to 77 bytes to the folder, and a socket's path is limited to 107 bytes.
MAX_PARENT_BYTES: Final = 8


GRACE_SECONDS: Final = 5.0


def enter_run_folder(grace_seconds: float = GRACE_SECONDS) -> Path:
    """Return the folder of this run; the first process of the run creates it.

    Args:
        grace_seconds: Time in which processes may end by themselves after the first one has ended.
    """
    current = Path(tempfile.gettempdir())
    if (current / "guard.pid").is_file():
        return current
    parent = current if len(os.fsencode(current)) <= MAX_PARENT_BYTES else Path("/tmp")  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    folder.chmod(0o711)  # PostgreSQL may have to run as another user
    start_guard(folder, grace_seconds)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    return folder


def start_guard(folder: Path, grace_seconds: float) -> None:
    """Start the guard of a folder, and wait until it has locked it.

    In a session of its own, it outlives Ctrl-C and a killed process group. This process does not
    wait for its end.
    """
    output, input_ = os.pipe()
    command = [sys.executable, "-I", "-S", str(GUARD), str(folder), str(os.getpid())]
    os.posix_spawn(
        sys.executable,
        [*command, str(grace_seconds)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, input_, 1)],
        setsid=True,
    )
    os.close(input_)
    with os.fdopen(output, "rb") as lines:
        assert lines.readline() == b"guarding\n", "the guard of the run's folder did not start"
