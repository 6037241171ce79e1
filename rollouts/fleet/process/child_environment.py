"""Protection of secrets from environment code: variables of its processes, and this process.

Environment code must not see the platform's secrets, so its processes inherit only an allow-list of
variables. Administrators add variables by name in ``ROLLDECK_ENVIRONMENT_VARIABLES``.
"""

import ctypes
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

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

    Args:
        runtime_env: The administrator's runtime environment.
        variables: Environment variables of this process; the names that it adds apply as well.
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
