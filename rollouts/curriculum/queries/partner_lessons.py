"""Checks of lessons with an environment of verifiers or OpenEnv, as far as this server can."""

import shutil
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from django.conf import settings

from rollouts.fleet.groups import openenv_settings, verifiers_settings
from rollouts.fleet.groups.errors import LessonFailed
from runs.config.rules.run_config import InvalidRunConfig

LOOPBACK: Final = ("127.", "localhost:", "[::1]:")


class _Partner(NamedTuple):
    setting: str
    settings_of: Callable[[str, dict[str, str]], Any]
    arguments_of: Callable[[str, dict[str, Any]], Any]


PARTNERS: Final = {
    "verifiers": _Partner(
        verifiers_settings.SETTING, verifiers_settings.settings_of, verifiers_settings.selection_of
    ),
    "openenv": _Partner(
        openenv_settings.SETTING, openenv_settings.settings_of, openenv_settings.arguments_of
    ),
}


def check_partner(field: str, spec: str, kwargs: dict[str, Any]) -> None:
    """Check a lesson's arguments, and the setting of its environment if this machine has it.

    Lessons of other kinds are accepted.

    Args:
        field: Path of the lesson.
        spec: ``verifiers:<name>`` or ``openenv:<name>``.
        kwargs: Arguments of the lesson.

    Raises:
        InvalidRunConfig: With the path of the first invalid field.
    """
    kind, _, name = spec.partition(":")
    partner = PARTNERS.get(kind)
    if partner is None:
        return
    try:
        partner.arguments_of(name, kwargs)
    except LessonFailed as error:
        raise InvalidRunConfig(f"{field}.kwargs", str(error)) from error
    text = getattr(settings, partner.setting)
    if not text:
        return
    try:
        found = partner.settings_of(name, {partner.setting: text})
    except LessonFailed as error:
        raise InvalidRunConfig(f"{field}.spec", str(error)) from error
    interpreter = getattr(found, "python", "")
    if interpreter and _fleets_run_here() and shutil.which(interpreter) is None:
        raise InvalidRunConfig(
            f"{field}.spec",
            f"{spec}: {partner.setting}: python: {interpreter} is not an executable file of this "
            "machine. Install the environment there, or correct the setting",
        )


def _fleets_run_here() -> bool:
    """Return whether the Ray cluster is on this machine; other machines have their own paths."""
    return str(settings.RAY_ADDRESS).startswith(LOOPBACK)
