"""Settings of environments that an administrator offers to lessons, and the lessons' arguments.

Everything that imports code or contains an address is in a setting. A lesson only names a server of
OpenEnv, or an environment of verifiers of which it selects tasks.
"""

import os
import socket
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from rollouts.fleet.groups.errors import LessonFailed

T = TypeVar("T")
OPENENV_SETTING: Final = "ROLLDECK_OPENENV"
VERIFIERS_SETTING: Final = "ROLLDECK_VERIFIERS"


def named_settings(
    kind: str, setting: str, form: type[T], name: str, variables: Mapping[str, str] = os.environ
) -> T:
    """Return the settings of the environment ``<kind>:<name>``.

    The variable `setting` has a JSON object of settings by name.

    Raises:
        LessonFailed: ``environment_unknown`` if this machine lacks it, or has an invalid setting.
    """
    machine = socket.gethostname()
    try:
        known = msgspec.json.decode(variables.get(setting, "") or "{}", type=dict[str, form])  # type: ignore[valid-type]
    except msgspec.DecodeError as error:
        problem = f"{kind}:{name}: {setting} of {machine}: {error}"
        raise LessonFailed("environment_unknown", problem) from error
    if name not in known:
        there_are = ", ".join(sorted(known)) or "none"
        problem = f"{kind}:{name} is not in {setting} of {machine}; known: {there_are}"
        raise LessonFailed("environment_unknown", problem)
    return known[name]


def lesson_arguments(kind: str, form: type[T], name: str, kwargs: Mapping[str, Any]) -> T:
    """Return the arguments of a lesson of ``<kind>:<name>``.

    Raises:
        LessonFailed: ``environment_kwargs``, with the field.
    """
    try:
        return msgspec.convert(dict(kwargs), form)
    except msgspec.ValidationError as error:
        raise LessonFailed("environment_kwargs", f"{kind}:{name}: {error}") from error


class OpenEnvSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Address of a server, and its limits."""

    url: Annotated[str, Meta(pattern=r"^https?://\S+$")]
    """Without ``/ws``."""
    headers: dict[str, str] = {}
    """Headers of every connection, such as credentials."""
    message_seconds: Annotated[float, Meta(gt=0)] = 60.0
    """Time limit of a response."""
    max_sessions: Annotated[int, Meta(ge=1)] = 16
    """Maximum number of concurrent sessions of a worker; one group is never split."""


class OpenEnvArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a lesson."""

    instructions: str = ""
    """System message before the first observation."""
    max_turns: Annotated[int, Meta(ge=1)] = 8
    reset: dict[str, Any] = {}
    """Arguments of every reset besides the seed."""
    seeds: Annotated[int, Meta(ge=1)] | None = None
    """Number of different seeds, from 0; None: a new seed for each problem."""


openenv_settings = partial(named_settings, "openenv", OPENENV_SETTING, OpenEnvSettings)
arguments_of = partial(lesson_arguments, "openenv", OpenEnvArguments)


class VerifiersSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Interpreter and configuration of an environment."""

    python: Annotated[str, Meta(min_length=1)]
    """Path of the interpreter that has verifiers 0.4 and the task set."""
    env: dict[str, Any]
    """`EnvConfig` of verifiers: ``{"taskset": {"id": …}, "agent": {…}}``."""
    renderer: dict[str, Any] | None = None
    """`RendererConfig` of renderers, such as ``{"name": "qwen3"}``; None: by the model's name."""
    rollout_seconds: Annotated[float, Meta(gt=0)] = 600.0
    """Time limit of one rollout."""
    max_concurrent: Annotated[int, Meta(ge=1)] = 32
    """Maximum number of concurrent rollouts of a worker."""

    def __post_init__(self) -> None:
        taskset = self.env.get("taskset")
        if not (isinstance(taskset, dict) and isinstance(taskset.get("id"), str)):
            raise ValueError("env.taskset.id is missing")  # noqa: TRY004 msgspec shows this type


class TaskSelection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a lesson."""

    select: dict[str, Any] | None = None
    """`SelectConfig` of verifiers for the training tasks; None for all."""
    eval_select: dict[str, Any] | None = None
    """`SelectConfig` of the evaluation tasks; None for the training tasks."""
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    """Maximum turns of each agent that has no limit in the setting."""


verifiers_settings = partial(named_settings, "verifiers", VERIFIERS_SETTING, VerifiersSettings)
selection_of = partial(lesson_arguments, "verifiers", TaskSelection)
