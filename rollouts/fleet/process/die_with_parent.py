"""Replace this process by a program that gets a signal when its parent dies (Linux only).

Run as ``python -I -S die_with_parent.py SIGNAL PARENT_PID COMMAND…``. A separate small program
replaces a ``preexec_fn``, because Python code between fork and exec may hang in a threaded parent.

The program starts with the default action of SIGINT: a shell ignores that signal in commands
started in the background (``make serve &``), and processes inherit this.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def shim(death_signal: int) -> list[str]:
    """Return the beginning of a command line; the thread that starts it is the one watched."""
    return [sys.executable, "-I", "-S", __file__, str(int(death_signal)), str(os.getpid())]


def become() -> None:
    """Request the parent-death signal, then exec the command; the request survives exec."""
    signal_number, parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if os.getppid() != int(parent):
        sys.exit(0)  # the parent died before it could be watched
    os.execvp(command[0], command)  # noqa: S606 no shell is wanted here


if __name__ == "__main__":
    become()
