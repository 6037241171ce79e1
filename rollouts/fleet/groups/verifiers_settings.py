"""Environments of verifiers that an administrator offers to lessons, and the lessons' arguments.

A lesson names an environment and selects tasks. Everything that imports code or contains an address
is in the setting: interpreter, task set, harness, reward functions.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rollouts.fleet.groups.named_settings import lesson_arguments, named_settings

SETTING: Final = "ROLLDECK_VERIFIERS"


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
        """Check that the task set is named."""
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


def settings_of(name: str, variables: Mapping[str, str] = os.environ) -> VerifiersSettings:
    """Return the settings of an environment.

    Raises:
        LessonFailed: ``environment_unknown`` if this machine lacks it, or has an invalid setting.
    """
    return named_settings(f"verifiers:{name}", SETTING, VerifiersSettings, variables)


def selection_of(name: str, kwargs: Mapping[str, Any]) -> TaskSelection:
    """Return a lesson's arguments.

    Raises:
        LessonFailed: ``environment_kwargs``, with the field.
    """
    return lesson_arguments(f"verifiers:{name}", kwargs, TaskSelection)
