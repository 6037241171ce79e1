"""Checks of the data set or the partner package of a lesson, as far as this server can."""

import shutil
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from django.conf import settings

from rollouts.fleet.datasets.columns import column_problem
from rollouts.fleet.groups import environment_settings
from rollouts.fleet.groups.errors import LessonFailed
from rollouts.tasks.rules.dataset_config import (
    OWN,
    DatasetConfig,
    RewardConfig,
    dataset_name,
    options_of,
    parse,
)
from rollouts.tasks.rules.task_specs import InvalidTask
from runs.config.rules import extensions
from runs.config.rules.run_config import InvalidRunConfig
from runs.config.services import registered_extensions


def check_dataset(field: str, spec: str, kwargs: dict[str, Any]) -> None:
    """Check a lesson, and its data set if this machine has it.

    Args:
        field: Path of the lesson.
        spec: ``dataset:<path>``.
        kwargs: Arguments of the lesson.

    Raises:
        InvalidRunConfig: With the path of the first invalid field.
    """
    try:
        name, config = dataset_name(spec), parse(kwargs)
    except InvalidTask as error:
        place, _, message = str(error).partition(": ")
        raise InvalidRunConfig(f"{field}.{place}", message) from error
    for position, reward in enumerate(config.rewards):
        _check_reward(reward, f"{field}.kwargs.rewards[{position}]")
    if config.tools is not None:
        _check_tools(config.tools.server, f"{field}.kwargs.tools.server")
    _check_data(name, config, field)


def _check_tools(server: str, path: str) -> None:
    if server not in settings.ROLLDECK_TOOL_SERVERS:
        known = ", ".join(sorted(settings.ROLLDECK_TOOL_SERVERS)) or "none"
        raise InvalidRunConfig(path, f"{server!r} is not in ROLLDECK_TOOL_SERVERS; known: {known}")


def _check_reward(reward: RewardConfig, path: str) -> None:
    if reward.kind.startswith(OWN):
        known = registered_extensions(extensions.REWARDS)
        if reward.kind not in known:
            raise extensions.not_registered(extensions.REWARDS, f"{path}.kind", reward.kind, known)
    if reward.kind == "judge":
        server = options_of(reward).server
        if server not in settings.ROLLDECK_INFERENCE_SERVERS:
            known = sorted(settings.ROLLDECK_INFERENCE_SERVERS)
            raise InvalidRunConfig(
                f"{path}.options.server",
                f"{server!r} is not in ROLLDECK_INFERENCE_SERVERS; "
                f"known: {', '.join(known) or 'none'}",
            )


def _check_data(name: str, config: DatasetConfig, field: str) -> None:
    problem = column_problem(name, config, root=settings.ROLLDECK_DATASETS)
    if problem is not None:
        argument, message = problem
        path = f"{field}.kwargs.{argument}" if argument else f"{field}.spec"
        raise InvalidRunConfig(path, message)


LOOPBACK: Final = ("127.", "localhost:", "[::1]:")


class _Partner(NamedTuple):
    setting: str
    settings_of: Callable[[str, dict[str, str]], Any]
    arguments_of: Callable[[str, dict[str, Any]], Any]


PARTNERS: Final = {
    "verifiers": _Partner(
        environment_settings.VERIFIERS_SETTING,
        environment_settings.verifiers_settings,
        environment_settings.selection_of,
    ),
    "openenv": _Partner(
        environment_settings.OPENENV_SETTING,
        environment_settings.openenv_settings,
        environment_settings.arguments_of,
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
