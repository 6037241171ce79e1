"""End the processes of a test run and delete its folder after the run's first process has ended.

``python -I -S run_guard.py FOLDER PID SECONDS`` waits for the process PID. Processes belong to the
run if their TMPDIR is the folder or they work inside it. They may end by themselves for SECONDS.
The guard locks the folder. At its start it deletes folders whose guard is gone, as after a reboot.
"""

import fcntl
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path


def main(folder: Path, pid: int, grace_seconds: float) -> None:
    """Guard a folder until the process has ended, then remove what is left of the run."""
    with (folder / "guard.pid").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(os.getpid()))
        lock.flush()
        first_process = os.pidfd_open(pid)
        sys.stdout.write("guarding\n")
        sys.stdout.flush()
        os.close(sys.stdout.fileno())
        remove_unguarded(folder)
        select.select([first_process], [], [])
        end_processes(folder, grace_seconds)
        shutil.rmtree(folder, ignore_errors=True)


def end_processes(folder: Path, grace_seconds: float) -> None:
    """Wait until no process of the run is left; kill those that remain after the grace period."""
    deadline = time.monotonic() + grace_seconds
    while processes := processes_of(folder):
        if time.monotonic() > deadline:
            for process in processes:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        time.sleep(0.05)


def processes_of(folder: Path) -> list[int]:
    """Return the ids of running processes whose TMPDIR or working folder is the run's folder."""
    # PostgreSQL and Valkey overwrite their environment with a title; they work inside the folder.
    variable = b"TMPDIR=" + os.fsencode(folder)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            if variable in variables or folder in (Path((entry / "cwd").readlink()) / "x").parents:
                found.append(int(entry.name))
        except OSError:  # the process has ended, or belongs to another user
            continue
    return found


def remove_unguarded(folder: Path) -> None:
    """Delete folders of earlier runs whose guard no longer runs."""
    for other in folder.parent.glob("rd-*/guard.pid"):
        try:
            with other.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(other.parent, ignore_errors=True)
        except OSError:  # guarded, or removed meanwhile
            continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
