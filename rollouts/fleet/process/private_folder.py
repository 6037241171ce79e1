"""Private folder of this user in the shared temporary directory, for logs, spools and recordings.

Other users of the machine can create any name there first, also as a link into a home of this
user. The folder is therefore used only if this user owns it and no one else can open it.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

MODE: Final = 0o700


class UnsafeFolder(OSError):
    """A folder that another user could have prepared."""


def private_folder(name: str, *, owner: tuple[int, int] | None = None) -> Path:
    """Return the path of a subfolder of this user's private folder, which is created if missing.

    `owner` is user and group id of another user whose private folder is meant.

    Raises:
        UnsafeFolder: If another user owns the folder or has access to it, or it is a link.
        OSError: If it cannot be created.
    """
    uid = os.getuid() if owner is None else owner[0]
    folder = Path(tempfile.gettempdir(), f"rolldeck-{uid}")
    with suppress(FileExistsError):
        folder.mkdir(mode=MODE)
    found = folder.lstat()
    if owner is not None and found.st_uid == os.getuid():
        # Created here. No other user can replace it in a sticky directory.
        os.chown(folder, *owner, follow_symlinks=False)
        found = folder.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        reason = "it is no directory"
    elif found.st_uid != uid:
        reason = f"user {found.st_uid} owns it, not user {uid}"
    elif mode & 0o077:
        reason = f"its mode is {mode:04o}, and must be {MODE:04o}"
    else:
        return folder / name
    raise UnsafeFolder(
        f"{folder} is not used for logs and unsent data: {reason}. "
        "Remove it, or set TMPDIR to a folder of this user."
    )
