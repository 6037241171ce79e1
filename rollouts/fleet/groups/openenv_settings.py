"""OpenEnv servers that an administrator offers to lessons, and the lessons' arguments.

A lesson names a server and never an address.
"""

import os
import socket
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from rollouts.fleet.groups.errors import LessonFailed

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
    machine = socket.gethostname()
    try:
        known = msgspec.json.decode(
            variables.get(SETTING, "") or "{}", type=dict[str, OpenEnvSettings]
        )
    except msgspec.DecodeError as error:
        raise LessonFailed(
            "environment_unknown", f"openenv:{name}: {SETTING} of {machine}: {error}"
        ) from error
    if name not in known:
        there_are = ", ".join(sorted(known)) or "none"
        raise LessonFailed(
            "environment_unknown",
            f"openenv:{name} is not in {SETTING} of {machine}; known: {there_are}",
        )
    return known[name]


def arguments_of(name: str, kwargs: Mapping[str, Any]) -> OpenEnvArguments:
    """Return a lesson's arguments.

    Raises:
        LessonFailed: ``environment_kwargs``, with the field.
    """
    try:
        return msgspec.convert(dict(kwargs), OpenEnvArguments)
    except msgspec.ValidationError as error:
        raise LessonFailed("environment_kwargs", f"openenv:{name}: {error}") from error
