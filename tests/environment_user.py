"""Another user for environment code, on machines whose tests run as root."""

import os
import pwd
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

NOBODY: Final = pwd.getpwnam("nobody")
IS_ROOT: Final = os.geteuid() == 0
# Below a private home, as pyenv installs it, no other user can read the interpreter: in a mount
# namespace, an empty folder with the interpreter alone stands in the home's place.
_OPENED: Final = """
set -e
home=$1 kept=$2 root=$3
shift 3
mount --bind "$root" "$kept"
mount -t tmpfs -o mode=755 tmpfs "$home"
mkdir -p "$root"
mount --bind "$kept" "$root"
exec "$@"
"""


_AS_NOBODY: Final = """
import subprocess, sys
uid, gid = map(int, sys.argv[1:])
words = [sys.executable, "-c", "import numpy"]
subprocess.run(words, user=uid, group=gid, extra_groups=[], check=True)
"""


def can_run_as_nobody(*prefix: str) -> bool:
    ids = (str(NOBODY.pw_uid), str(NOBODY.pw_gid))
    words = [*prefix, sys.executable, "-c", _AS_NOBODY, *ids]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@cache
def readable_python(kept: Path) -> tuple[str, ...]:
    """Return the prefix of a command whose interpreter other users can read.

    Args:
        kept: An empty folder, to which the interpreter is bound.
    """
    if can_run_as_nobody():
        return ()
    root = Path(sys.base_prefix).resolve()
    home = Path("/", root.parts[1])
    unshare = str(shutil.which("unshare"))
    prefix = (unshare, "--mount", "sh", "-c", _OPENED, "sh", str(home), str(kept), str(root))
    assert can_run_as_nobody(*prefix)
    return prefix
