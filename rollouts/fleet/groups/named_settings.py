"""Settings that an administrator names in an environment variable, and arguments of lessons."""

import socket
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from rollouts.fleet.groups.errors import LessonFailed

T = TypeVar("T")


def named_settings(spec: str, setting: str, kind: type[T], variables: Mapping[str, str]) -> T:
    """Return the settings of an environment.

    Args:
        spec: ``<kind>:<name>`` of the environment.
        setting: Variable with a JSON object of settings by name.
        kind: Type of the settings.
        variables: Environment variables of this machine.

    Raises:
        LessonFailed: ``environment_unknown`` if this machine lacks it, or has an invalid setting.
    """
    name, machine = spec.partition(":")[2], socket.gethostname()
    try:
        known = msgspec.json.decode(variables.get(setting, "") or "{}", type=dict[str, kind])  # type: ignore[valid-type]
    except msgspec.DecodeError as error:
        raise LessonFailed(
            "environment_unknown", f"{spec}: {setting} of {machine}: {error}"
        ) from error
    if name not in known:
        there_are = ", ".join(sorted(known)) or "none"
        raise LessonFailed(
            "environment_unknown", f"{spec} is not in {setting} of {machine}; known: {there_are}"
        )
    return known[name]


def lesson_arguments(spec: str, kwargs: Mapping[str, Any], kind: type[T]) -> T:
    """Return a lesson's arguments.

    Raises:
        LessonFailed: ``environment_kwargs``, with the field.
    """
    try:
        return msgspec.convert(dict(kwargs), kind)
    except msgspec.ValidationError as error:
        raise LessonFailed("environment_kwargs", f"{spec}: {error}") from error
