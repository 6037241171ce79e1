"""Run something in processes of its own for a given time, all of them at once.

A child prints a line when it is ready, reads a number of seconds on each line of its standard
input, and answers with a line of JSON: `steps`, `seconds` and `cpu_seconds` of its own.
Only the standard library: children run in environments of peers, too.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager


def serve(loop: Callable[[float], int]) -> None:
    """Be a child: `loop` goes on for so many seconds and returns the env steps it made."""
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
    """Children that run when they are told to."""

    def __init__(self, children: "Sequence[subprocess.Popen[str]]") -> None:
        self._children = children
        self.cpu_microseconds = 0.0
        """Processor time for each env step, when they were last asked."""
        for child in children:
            _line(child)

    def rate(self, seconds: float) -> float:
        """Return the env steps a second that all of them make together."""
        for child in self._children:
            assert child.stdin is not None  # noqa: S101 it was asked for
            child.stdin.write(f"{seconds}\n")
            child.stdin.flush()
        took = [json.loads(_line(child)) for child in self._children]
        steps = sum(one["steps"] for one in took)
        self.cpu_microseconds = 1e6 * sum(one["cpu_seconds"] for one in took) / max(1, steps)
        return sum(float(one["steps"] / one["seconds"]) for one in took)


class ChildEnded(Exception):
    """A child ended before it answered."""


@contextmanager
def paced(
    command: Sequence[str], *, count: int, environment: Mapping[str, str] | None = None
) -> Iterator[Paced]:
    """Start `count` children, and end them with the block."""
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
    """Return the next line of the protocol; what else is printed is passed over."""
    assert child.stdout is not None  # noqa: S101 it was asked for
    for line in child.stdout:
        if line.startswith(("ready", "{")):
            return line
    raise ChildEnded(f"{child.args!r} ended")
