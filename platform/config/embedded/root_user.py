"""Run a program that refuses to be root on a machine where everything runs as root."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Final

from config.embedded.children import StartFailed

# User id of the server inside the namespace; outside, root owns its files.
MAPPED_ID: Final = 1000
UNPRIVILEGED: Final = ("postgres", "nobody")


def unprivileged(folders: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the command prefix that keeps a program from running as root.

    Args:
        folders: Folders that the program must own; chowned only if user namespaces are disabled.

    Raises:
        StartFailed: If this machine supports neither way.
    """
    if os.geteuid() != 0:
        return ()
    namespace = ("unshare", "--user", f"--map-user={MAPPED_ID}", f"--map-group={MAPPED_ID}")
    if _works((*namespace, "true")):
        return namespace
    return _another_user(folders)


def _another_user(folders: tuple[Path, ...]) -> tuple[str, ...]:
    for name in UNPRIVILEGED:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        # A change of user clears the parent-death signal, so setpriv sets it again.
        words = (
            "setpriv",
            f"--reuid={user.pw_uid}",
            f"--regid={user.pw_gid}",
            "--clear-groups",
            "--pdeathsig=INT",
        )
        if not all(_works((*words, "test", "-x", str(folder.parent))) for folder in folders):
            continue
        for folder in folders:
            _give(folder, user.pw_uid, user.pw_gid)
        return words
    raise StartFailed(
        "PostgreSQL does not run as root. This machine allows no user namespaces, and no "
        f"unprivileged user ({', '.join(UNPRIVILEGED)}) can reach "
        f"{', '.join(str(folder) for folder in folders)}. Start the server as another user, move "
        "ROLLDECK_VAR to a folder that everyone may enter, or set DATABASE_URL."
    )


def _works(argv: tuple[str, ...]) -> bool:
    if shutil.which(argv[0]) is None:
        return False
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def _give(folder: Path, uid: int, gid: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, gid, follow_symlinks=False)
