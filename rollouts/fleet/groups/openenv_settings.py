"""OpenEnv servers that an administrator offers to lessons, and the lessons' arguments.

A lesson names a server and never an address.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rollouts.fleet.groups.named_settings import lesson_arguments, named_settings

SETTING: Final = "ROLLDECK_OPENENV"


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


def settings_of(name: str, variables: Mapping[str, str] = os.environ) -> OpenEnvSettings:
    """Return the settings of a server.

    Raises:
        LessonFailed: ``environment_unknown`` if this machine lacks it, or has an invalid setting.
    """
    return named_settings(f"openenv:{name}", SETTING, OpenEnvSettings, variables)


def arguments_of(name: str, kwargs: Mapping[str, Any]) -> OpenEnvArguments:
    """Return a lesson's arguments.

    Raises:
        LessonFailed: ``environment_kwargs``, with the field.
    """
    return lesson_arguments(f"openenv:{name}", kwargs, OpenEnvArguments)
