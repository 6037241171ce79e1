"""NOT verifiers: a stand-in with the interface of its 0.1, for machines where it is missing."""

import importlib
from typing import Any

from verifiers.envs.environment import Environment

IS_STAND_IN = True


def load_environment(env_id: str, **env_args: Any) -> Environment:
    """Return the environment that the named module loads, with the errors of the original."""
    try:
        module = importlib.import_module(env_id.replace("-", "_").split("/")[-1])
        loaded: Environment = module.load_environment(**env_args)
    except ImportError as error:
        raise ValueError(f"Could not import '{env_id}' environment.") from error
    except Exception as error:
        raise RuntimeError(f"Failed to load environment '{env_id}': {error}") from error
    return loaded
