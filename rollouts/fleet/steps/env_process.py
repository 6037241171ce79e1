"""Step a few environments in a process of their own, as the parent says over a socket.

Started by :class:`rollouts.fleet.steps.env_worker.EnvWorker` with the descriptors of the socket
and of the shared memory, and the parent's process id, as arguments.
"""

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
from typing import Final

import numpy as np

from rollouts.fleet.environments.loader import import_registered_modules
from rollouts.fleet.steps.env_messages import Build, Channel, Close, Record, Step, ToProcess
from rollouts.fleet.steps.env_rows import EnvRows

_PR_SET_PDEATHSIG: Final = 1


def serve(channel: Channel, memory: int) -> None:
    """Do what the parent says until it hangs up."""
    setup, *messages = channel.receive()
    import_registered_modules()
    rows = EnvRows(setup, tell=channel.send, memory=memory)
    for row, seed in enumerate(setup.seeds):
        rows.build(row, seed)
    # What is here now stays: looking it through again and again would only cost time.
    gc.freeze()
    while True:
        for message in messages:
            match message:
                case Step(asked):
                    rows.step(np.asarray(asked, dtype=np.intp))
                case Build(row, seed):
                    rows.build(row, seed)
                case Record(row, order_id, film):
                    rows.record(row, order_id, film)
                case Close():
                    rows.close()
                    return
        messages = channel.receive()


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process once its parent is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have gone before the kernel was asked.
    if os.getppid() != parent:
        raise SystemExit(1)


def main() -> None:
    """Serve the socket whose descriptor is the first argument; the memory's is the second."""
    end, memory, parent = map(int, sys.argv[1:4])
    die_with_parent(parent)
    # Ctrl-C reaches the whole group; the parent decides what ends when.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    channel = Channel(socket.socket(fileno=end), receives=ToProcess)
    try:
        serve(channel, memory)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise SystemExit(0) from None
