"""Build token environments from their specs, inside workers only.

Building an environment may import code. A run's configuration can therefore only choose among
built-in environments and those that an administrator allows in ``ROLLDECK_ENVIRONMENTS``.
"""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from rollouts.fleet.environments.contract import UnknownEnvironment, require_registered
from rollouts.fleet.groups.environments import GroupEnvironment
from rollouts.fleet.groups.errors import LessonFailed
from rollouts.fleet.groups.task_environment import DatasetEnvironment, TaskEnvironment
from rollouts.tasks.rules.task import InvalidTask, make_task


def load_environment(spec: str, kwargs: Mapping[str, Any]) -> GroupEnvironment:
    """Return a new environment.

    Args:
        spec: ``task:<name>``, ``dataset:<path>``, or a registered ``verifiers:<name>``,
            ``openenv:<name>`` or ``module:<import.path>:<Class>``. The last is a
            :class:`GroupEnvironment`, or a :class:`rollouts.tasks.rules.task.Task`.
        kwargs: Keyword arguments of its constructor.

    Raises:
        LessonFailed: ``environment_unknown``, ``environment_kwargs``, ``dependency_missing``,
            ``environment_failed``, ``dataset_missing`` or ``dataset_invalid``.
    """
    try:
        return _load(spec, kwargs)
    except LessonFailed:
        raise
    except UnknownEnvironment as error:
        raise LessonFailed("environment_unknown", str(error)) from error
    except ModuleNotFoundError as error:
        raise LessonFailed("dependency_missing", f"{spec} needs {error.name}: {error}") from error
    except Exception as error:
        raise LessonFailed(
            "environment_failed", f"{spec} cannot be built: {type(error).__name__}: {error}"
        ) from error


def _load(spec: str, kwargs: Mapping[str, Any]) -> GroupEnvironment:
    kind, _, name = spec.partition(":")
    if kind == "task":
        try:
            return TaskEnvironment(make_task(spec, kwargs))
        except InvalidTask as error:
            field = "kwargs" if str(error).startswith("kwargs") else "unknown"
            raise LessonFailed(f"environment_{field}", str(error)) from error
    if kind == "dataset":
        return DatasetEnvironment(spec, kwargs)
    if kind == "verifiers":
        require_registered(spec)
        from rollouts.fleet.groups.verifiers_environment import VerifiersEnvironment

        return VerifiersEnvironment(name, kwargs)
    if kind == "openenv":
        require_registered(spec)
        from rollouts.fleet.groups.openenv_environment import OpenEnvEnvironment

        return OpenEnvEnvironment(name, kwargs)
    if kind != "module":
        raise UnknownEnvironment(
            f"{spec}: unknown kind; use task:, dataset:, verifiers:, openenv: or module:"
        )
    require_registered(spec)
    path, _, class_name = name.partition(":")
    factory = getattr(importlib.import_module(path), class_name, None)
    if factory is None:
        raise UnknownEnvironment(f"{spec} is registered, but {path} has no {class_name}")
    try:
        inspect.signature(factory).bind(**kwargs)
    except TypeError as error:
        raise LessonFailed("environment_kwargs", f"{spec}: {error}") from error
    built = factory(**kwargs)
    return TaskEnvironment(built) if hasattr(built, "reply") else built
