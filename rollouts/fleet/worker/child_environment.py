"""Environment variables that processes running environment code inherit.

Environment code is not trusted with the platform's secrets, so its processes get the variables of
an allow-list instead of everything that the server knows. Administrators add variables by name in
``ROLLDECK_ENVIRONMENT_VARIABLES``.
"""

import re
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
_OURS: Final = {"ROLLDECK_ENVIRONMENTS", "ROLLDECK_ENVIRONMENT_MODULES", MORE}
# What managers and workers read, beside what their environments read.
_FLEET: Final = {"ROLLDECK_CHECKPOINTS", "ROLLDECK_INFERENCE_SERVERS"}
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(^|_)KEY($|_)")


def for_environments(variables: Mapping[str, str]) -> dict[str, str]:
    """Return what processes with environment code inherit of `variables`."""
    return _allowed(variables, _SYSTEM | _OURS)


def for_fleets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return what the processes of a Ray node inherit of `variables`, without Ray's own."""
    return _allowed(variables, _SYSTEM | _OURS | _FLEET)


def more_names(variables: Mapping[str, str]) -> list[str]:
    """Return the names that the administrator added."""
    named = (name.strip() for name in variables.get(MORE, "").split(","))
    return [name for name in named if name]


def with_names(runtime_env: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return Ray's `runtime_env` such that environment processes inherit all of its variables.

    Args:
        runtime_env: The administrator's.
        variables: Of this process; the names that it adds hold as well.
    """
    given = runtime_env.get("env_vars")
    if not isinstance(given, Mapping) or not given:
        return dict(runtime_env)
    own = [name for name in given if name != MORE]
    names = dict.fromkeys([*own, *more_names(variables), *more_names(given)])
    return {**runtime_env, "env_vars": {**given, MORE: ",".join(names)}}


def _allowed(variables: Mapping[str, str], names: set[str]) -> dict[str, str]:
    wanted = names.union(more_names(variables))
    return {
        name: value
        for name, value in variables.items()
        if name in wanted or (name.startswith(_PREFIXES) and not _SECRET.search(name))
    }
