"""Stacks of all Python threads of this process."""

import os
import socket
import sys
import threading
import traceback
from types import FrameType
from typing import Final

from rolldeck.operator_requests import LogLines
from rollouts.fleet.process import log_text

FRAMES_AT_MOST: Final = 60
"""Maximum number of innermost frames per thread."""


def read_stacks() -> LogLines:
    """Return the stacks of all Python threads, innermost call last, at most 1,000 lines.

    Native threads have no Python stack. The call needs the GIL, so native code that holds the GIL
    delays it.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own = threading.get_ident()
    lines = [
        line
        for ident, frame in sorted(sys._current_frames().items())  # noqa: SLF001 documented
        if ident != own
        for line in _lines_of(names.get(ident, "not started by Python"), ident, frame)
    ]
    left_out = max(0, len(lines) - log_text.LINES_AT_MOST)
    return LogLines(
        lines=[log_text.clean(line) for line in lines[: log_text.LINES_AT_MOST]],
        node=socket.gethostname()[:200],
        path=f"pid {os.getpid()}",
        note=f"{left_out} lines omitted" if left_out else "",
    )


def _lines_of(name: str, ident: int, frame: FrameType) -> list[str]:
    found = traceback.extract_stack(frame)
    lines = [f"Thread {name} ({ident:#x})"]
    if len(found) > FRAMES_AT_MOST:
        lines.append(f"  … {len(found) - FRAMES_AT_MOST} outer calls omitted")
    for call in found[-FRAMES_AT_MOST:]:
        lines.append(f"  {call.filename}:{call.lineno} in {call.name}")
        lines += [f"    {call.line}"] if call.line else []
    return [*lines, ""]
