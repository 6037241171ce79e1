"""Protection of this process' memory and environment from other processes of the same user."""

import ctypes
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def hide() -> None:
    """Deny other processes of this user ``/proc/<pid>/environ``, its memory and ptrace (Linux).

    It applies to forks too, and ends with exec: each program calls it for itself. Root may still
    read everything.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
