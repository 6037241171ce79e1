"""Liveness of the web processes that send batches.

A process is identified by machine, process id and start time, so that a reused process id is not
mistaken for it.
"""

import os
import socket
from functools import cache
from pathlib import Path


def this_process() -> str:
    """Return the identifier of the calling process."""
    return _own_name(os.getpid())


@cache
def _own_name(pid: int) -> str:
    return _name(pid)


@cache
def _machine() -> str:
    return socket.gethostname()[:60]


def _name(pid: int) -> str:
    return f"{_machine()}:{pid}:{_began(pid)}"


def _began(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    # The command in parentheses may contain spaces; the fields after it do not.
    return stat.rpartition(")")[2].split()[19]


def is_alive(sender: str) -> bool | None:
    """Return whether the process is alive; None if it is on another machine."""
    machine, _, rest = sender.rpartition(":")[0].rpartition(":")
    if machine != _machine() or not rest.isdigit():
        return None
    return _began(int(rest)) != "" and _name(int(rest)) == sender
