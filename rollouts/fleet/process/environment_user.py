"""The user that runs environment code, if ``ROLLDECK_ENVIRONMENT_USER`` names one.

Processes that import environment code then belong to this user from their start. They can read
neither the files of the server's user nor the memory and ``/proc`` entries of its processes.
"""

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from rollouts.fleet.process.private_folder import UnsafeFolder, private_folder

VARIABLE: Final = "ROLLDECK_ENVIRONMENT_USER"
# Numbers of the capabilities that a switch of the user, and control of its processes, need.
CAPABILITIES: Final = {"CHOWN": 0, "DAC_OVERRIDE": 1, "KILL": 5, "SETGID": 6, "SETUID": 7}
# Folders and displays of the server's user.
_FOREIGN: Final = ("TMPDIR", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME")
CHECK_SECONDS: Final = 60.0
_CHECK: Final = "import tempfile, rollouts.fleet.steps.env_process; tempfile.TemporaryFile(dir='.')"
_SHARED_MODE: Final = 0o711
_RECORDINGS_MODE: Final = 0o1770


class InvalidEnvironmentUser(OSError):
    """The user cannot run environment code; the message states the reason."""


@dataclass(frozen=True, slots=True)
class EnvironmentUser:
    """An account of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    """All groups of the account, such as that of the GPU devices."""
    home: str

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the account that this process may use for environment code.

        Raises:
            InvalidEnvironmentUser: If there is no such account, it is root or this process' own,
                or this process lacks the right to use it.
        """
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise InvalidEnvironmentUser(
                f"{VARIABLE} is {name!r}, and this machine has no such user"
            ) from None
        if found.pw_uid in {0, os.geteuid()}:
            whose = "root" if found.pw_uid == 0 else "the user of the server"
            raise InvalidEnvironmentUser(
                f"{VARIABLE} is {name!r}, which is {whose}; name another user"
            )
        if missing := _missing_capabilities():
            raise InvalidEnvironmentUser(
                f"{VARIABLE} is {name!r}, and user {os.geteuid()} has no right to start processes "
                f"as another user (it lacks {', '.join(missing)}); start the server as root, or "
                f"unset {VARIABLE}"
            )
        groups = tuple(os.getgrouplist(name, found.pw_gid))
        return cls(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)

    def check(self) -> None:
        """Start a process as this user.

        Raises:
            InvalidEnvironmentUser: If it cannot import Rolldeck, or write to its home.
        """
        path = os.pathsep.join(filter(None, sys.path))
        kept = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": path}
        variables = self.variables(kept)
        try:
            done = subprocess.run(
                [sys.executable, "-c", _CHECK],
                cwd=variables["HOME"],
                env=variables,
                capture_output=True,
                text=True,
                timeout=CHECK_SECONDS,
                check=False,
                **popen_options(),
            )
            problem = done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
        except (OSError, subprocess.SubprocessError) as error:
            problem = str(error)
        if problem:
            raise InvalidEnvironmentUser(
                f"{VARIABLE} is {self.name!r}, which cannot run environment processes: {problem}. "
                f"It needs to read {sys.prefix} and the folders of PYTHONPATH"
            )

    def variables(self, kept: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables `kept`, with the home and names of this user."""
        own = {name: value for name, value in kept.items() if name not in _FOREIGN}
        return own | {"HOME": self._home(), "USER": self.name, "LOGNAME": self.name}

    def recordings_folder(self, name: str) -> Path:
        """Create a folder in which this user can create files, and return its path.

        Its owner remains the server's user, so that no part of its path can be replaced.

        Raises:
            UnsafeFolder: If another user has prepared the folder above it.
            OSError: If it cannot be created.
        """
        folder = self.recordings_root() / name
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, -1, self.gid)
        folder.chmod(_RECORDINGS_MODE)
        return folder

    def recordings_root(self) -> Path:
        """Create the folder of all recordings if it is missing, and return its path."""
        folder = Path(tempfile.gettempdir(), f"rolldeck-{os.getuid()}-recordings")
        folder.mkdir(mode=_SHARED_MODE, exist_ok=True)
        found = folder.lstat()
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        if not is_own or stat.S_IMODE(found.st_mode) & 0o022:
            raise UnsafeFolder(f"{folder} is not used for recordings: another user can change it")
        folder.chmod(_SHARED_MODE)  # in spite of the umask
        return folder

    def _home(self) -> str:
        """Return the account's home, or a private folder if it has none."""
        home = Path(self.home)
        if home.is_dir() and home.stat().st_uid == self.uid:
            return self.home
        return str(private_folder("", owner=(self.uid, self.gid)))


def current() -> EnvironmentUser | None:
    """Return the configured user; None if environment code runs as the server's user.

    Raises:
        InvalidEnvironmentUser: If the setting is invalid on this machine.
    """
    name = os.environ.get(VARIABLE, "").strip()
    return EnvironmentUser.named(name) if name else None


def popen_options() -> dict[str, Any]:
    """Return the arguments with which :class:`subprocess.Popen` switches to the user.

    Raises:
        InvalidEnvironmentUser: If the setting is invalid on this machine.
    """
    user = current()
    if user is None:
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups), "umask": 0o077}


def variables(kept: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a process with environment code."""
    user = current()
    return dict(kept) if user is None else user.variables(kept)


def _missing_capabilities() -> list[str]:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return [] if os.geteuid() == 0 else ["root"]
    mask = int(status.partition("CapEff:")[2].split()[0], 16)
    return [f"CAP_{name}" for name, bit in CAPABILITIES.items() if not mask >> bit & 1]
