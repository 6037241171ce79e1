"""Run child processes for a given time, all at once.

A child prints a line when it is ready, reads a number of seconds on each line of its standard
input, and responds with a line of JSON: its `steps`, `seconds` and `cpu_seconds`. It uses only the
standard library, because children also run in environments of peers.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager


def serve(loop: Callable[[float], int]) -> None:
    """Run as a child; `loop` runs for the given seconds and returns its env steps."""
    print("ready", flush=True)
    for line in sys.stdin:
        wall, cpu = time.monotonic(), time.process_time()
        steps = loop(float(line))
        took = {
            "steps": steps,
            "seconds": time.monotonic() - wall,
            "cpu_seconds": time.process_time() - cpu,
        }
        print(json.dumps(took), flush=True)


class Paced:
    """Children that run on request."""

    def __init__(self, children: "Sequence[subprocess.Popen[str]]") -> None:
        self._children = children
        self.cpu_microseconds = 0.0
        """Processor time per env step in the last measurement, in microseconds."""
        for child in children:
            _line(child)

    def rate(self, seconds: float) -> float:
        """Return the total env steps per second of all children."""
        for child in self._children:
            assert child.stdin is not None  # noqa: S101 it was asked for
            child.stdin.write(f"{seconds}\n")
            child.stdin.flush()
        took = [json.loads(_line(child)) for child in self._children]
        steps = sum(measurement["steps"] for measurement in took)
        self.cpu_microseconds = (
            1e6 * sum(measurement["cpu_seconds"] for measurement in took) / max(1, steps)
        )
        return sum(float(measurement["steps"] / measurement["seconds"]) for measurement in took)


class ChildEnded(Exception):
    """A child ended before it responded."""


@contextmanager
def paced(
    command: Sequence[str], *, count: int, environment: Mapping[str, str] | None = None
) -> Iterator[Paced]:
    """Start `count` children, and kill them at the end of the block."""
    with ExitStack() as stop:
        children = []
        for _ in range(count):
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=dict(environment or os.environ),
            )
            stop.enter_context(child)
            stop.callback(child.kill)
            children.append(child)
        yield Paced(children)


def _line(child: "subprocess.Popen[str]") -> str:
    """Return the next line of the protocol; other output is skipped."""
    assert child.stdout is not None  # noqa: S101 it was asked for
    for line in child.stdout:
        if line.startswith(("ready", "{")):
            return line
    raise ChildEnded(f"{child.args!r} ended")
