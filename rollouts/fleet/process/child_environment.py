"""Guards of processes: the secrets that environment code must not see, and the parent's death.

Environment code must not see the platform's secrets, so its processes inherit only an allow-list of
variables. Administrators add variables by name in ``ROLLDECK_ENVIRONMENT_VARIABLES``.

Where ``ROLLDECK_ENVIRONMENT_USER`` names a user, processes that import environment code belong to
this user from their start. They can read neither the files of the server's user nor the memory and
``/proc`` entries of its processes.
"""

import ctypes
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from rollouts.fleet.process.private_folder import UnsafeFolder, private_folder

MORE: Final = "ROLLDECK_ENVIRONMENT_VARIABLES"
_SYSTEM: Final = {
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "JAVA_HOME"),
    *("DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "TORCH_HOME"),
    *("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
}
_PREFIXES: Final = (
    *("LC_", "PYTHON", "MALLOC_", "OMP_", "MKL_", "OPENBLAS_", "CUDA_", "NCCL_", "GLOO_"),
    *("PYTORCH_", "SDL_", "PYGAME_", "MUJOCO_", "PYOPENGL_", "EGL_", "MESA_", "LIBGL_"),
)
_OURS: Final = {
    *("ROLLDECK_ENVIRONMENTS", "ROLLDECK_ENVIRONMENT_MODULES", "ROLLDECK_POLICIES"),
    *("ROLLDECK_ENVIRONMENT_WRAPPERS", "ROLLDECK_STEP_CALLBACKS"),
    *("ROLLDECK_ENVIRONMENT_CALLBACKS", "ROLLDECK_REWARDS", "ROLLDECK_DATASETS"),
    MORE,
}
# Variables that managers and workers read in addition to those of environments.
_FLEET: Final = {
    *("ROLLDECK_CHECKPOINTS", "ROLLDECK_INFERENCE_SERVERS", "ROLLDECK_TOOL_SERVERS"),
    *("ROLLDECK_OPENENV", "ROLLDECK_VERIFIERS", "ROLLDECK_ENVIRONMENT_USER"),
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    *("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_RESOURCE_ATTRIBUTES"),
    "OTEL_SEMCONV_STABILITY_OPT_IN",
}
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(^|_)KEY($|_)")
PR_SET_DUMPABLE: Final = 4
PR_SET_PDEATHSIG: Final = 1
USER_VARIABLE: Final = "ROLLDECK_ENVIRONMENT_USER"
# Numbers of the capabilities that a switch of the user, and control of its processes, need.
CAPABILITIES: Final = {"CHOWN": 0, "DAC_OVERRIDE": 1, "KILL": 5, "SETGID": 6, "SETUID": 7}
# Folders and displays of the server's user.
_FOREIGN: Final = ("TMPDIR", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME")
CHECK_SECONDS: Final = 60.0
_CHECK: Final = "import tempfile, rollouts.fleet.steps.env_process; tempfile.TemporaryFile(dir='.')"
_SHARED_MODE: Final = 0o711
_RECORDINGS_MODE: Final = 0o1770


def for_environments(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the part of `variables` that processes with environment code inherit."""
    return _allowed(variables, _SYSTEM | _OURS)


def for_fleets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the part of `variables` that processes of a Ray node inherit, without Ray's own."""
    return _allowed(variables, _SYSTEM | _OURS | _FLEET)


def more_names(variables: Mapping[str, str]) -> list[str]:
    """Return the variable names that the administrator added."""
    named = (name.strip() for name in variables.get(MORE, "").split(","))
    return [name for name in named if name]


def with_names(runtime_env: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return Ray's `runtime_env`, extended so that environment processes inherit all its variables.

    Names that `variables`, those of this process, add apply as well.
    """
    given = runtime_env.get("env_vars")
    if not isinstance(given, Mapping) or not given:
        return dict(runtime_env)
    own = [name for name in given if name != MORE]
    names = dict.fromkeys([*own, *more_names(variables), *more_names(given)])
    return {**runtime_env, "env_vars": {**given, MORE: ",".join(names)}}


def _allowed(variables: Mapping[str, str], names: set[str]) -> dict[str, str]:
    allowed = names.union(more_names(variables))
    return {
        name: value
        for name, value in variables.items()
        if name in allowed or (name.startswith(_PREFIXES) and not _SECRET.search(name))
    }


def hide_this_process() -> None:
    """Deny other processes of this user ``/proc/<pid>/environ``, its memory and ptrace (Linux).

    It applies to forks too, and ends with exec: each program calls it for itself. Root may still
    read everything.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, even a killed one (Linux).

    Call it from the main thread. The parent's thread that started this process must live as long as
    the parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have ended before the call above.
    if os.getppid() != parent:
        raise SystemExit(1)


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
                f"{USER_VARIABLE} is {name!r}, and this machine has no such user"
            ) from None
        if found.pw_uid in {0, os.geteuid()}:
            whose = "root" if found.pw_uid == 0 else "the user of the server"
            raise InvalidEnvironmentUser(
                f"{USER_VARIABLE} is {name!r}, which is {whose}; name another user"
            )
        if missing := _missing_capabilities():
            raise InvalidEnvironmentUser(
                f"{USER_VARIABLE} is {name!r}, and user {os.geteuid()} has no right to start "
                f"processes as another user (it lacks {', '.join(missing)}); start the server as "
                f"root, or unset {USER_VARIABLE}"
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
                f"{USER_VARIABLE} is {self.name!r}, which cannot run environment processes: "
                f"{problem}. It needs to read {sys.prefix} and the folders of PYTHONPATH"
            )

    def variables(self, kept: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables `kept`, with the home and names of this user.

        An account without a home has a private folder.
        """
        own = {name: value for name, value in kept.items() if name not in _FOREIGN}
        home = Path(self.home)
        if not home.is_dir() or home.stat().st_uid != self.uid:
            home = private_folder("", owner=(self.uid, self.gid))
        return own | {"HOME": str(home), "USER": self.name, "LOGNAME": self.name}

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


def environment_user() -> EnvironmentUser | None:
    """Return the configured user; None if environment code runs as the server's user.

    Raises:
        InvalidEnvironmentUser: If the setting is invalid on this machine.
    """
    name = os.environ.get(USER_VARIABLE, "").strip()
    return EnvironmentUser.named(name) if name else None


def popen_options() -> dict[str, Any]:
    """Return the arguments with which :class:`subprocess.Popen` switches to the user."""
    user = environment_user()
    if user is None:
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": list(user.groups), "umask": 0o077}


def with_user(kept: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables `kept`, with those of the user of environment code."""
    user = environment_user()
    return dict(kept) if user is None else user.variables(kept)


def _missing_capabilities() -> list[str]:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return [] if os.geteuid() == 0 else ["root"]
    mask = int(status.partition("CapEff:")[2].split()[0], 16)
    return [f"CAP_{name}" for name, bit in CAPABILITIES.items() if not mask >> bit & 1]
