"""Process that steps a few environments on request of its parent, over a socket.

:class:`rollouts.fleet.steps.env_worker.EnvWorker` starts it. The arguments are the descriptors of
the socket and of the shared memory, and the parent's process id.
"""

import faulthandler
import gc
import logging
import signal
import socket
import sys

import numpy as np

from rollouts.fleet.environments.loader import import_registered_modules
from rollouts.fleet.process.child_environment import die_with_parent
from rollouts.fleet.steps.env_messages import Build, Channel, Close, Record, Step, ToProcess
from rollouts.fleet.steps.env_rows import EnvRows


def serve(channel: Channel, memory: int) -> None:
    """Serve the parent's requests until it closes the connection."""
    setup, *messages = channel.receive()
    import_registered_modules()
    rows = EnvRows(setup, emit=channel.send, memory=memory)
    for row, seed in enumerate(setup.seeds):
        rows.build(row, seed)
    # Objects created so far stay alive; exclude them from garbage collection.
    gc.freeze()
    while True:
        for message in messages:
            match message:
                case Step(asked):
                    rows.step(np.asarray(asked, dtype=np.intp))
                case Build(row, seed):
                    rows.build(row, seed)
                case Record(row, request_id, video):
                    rows.record(row, request_id, video)
                case Close():
                    rows.close()
                    return
        messages = channel.receive()


def main() -> None:
    """Serve the socket whose descriptor is the first argument; the memory's is the second."""
    end, memory, parent = map(int, sys.argv[1:4])
    die_with_parent(parent)
    # Ctrl-C reaches the whole group, but the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    channel = Channel(socket.socket(fileno=end), receives=ToProcess)
    try:
        serve(channel, memory)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise SystemExit(0) from None
