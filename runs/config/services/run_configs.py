"""Build and validate the configuration of a run."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User

from runs.config import queries as presets
from runs.config.rules import (
    environment_specs,
    extensions,
    policy_kinds,
    run_config,
)
from runs.config.rules.extensions import ExtensionPoint
from runs.config.rules.inference_servers import unsupported
from runs.config.rules.run_config import PRESETS, InvalidRunConfig, RunConfig
from web.rules import json_values
from web.rules.errors import Invalid


def registered_extensions(point: ExtensionPoint) -> list[str]:
    """Return the names from the setting and from installed packages."""
    packaged = (f"package:{one.name}" for one in entry_points(group=point.entry_points))
    return sorted({*getattr(settings, point.setting), *packaged})


CONFIG_CHECKS: Final[list[Callable[[RunConfig], object]]] = []
"""Checks of the packages above (:mod:`config.readers`), which may raise `InvalidRunConfig`."""


class UnknownPreset(Invalid):
    """The preset does not exist."""

    field = "preset"


def configured(*, preset: str, config: dict[str, Any], asked_by: User | None = None) -> RunConfig:
    """Return the validated configuration of `config` merged over `preset`.

    Raises:
        UnknownPreset: If there is no such preset that `asked_by` may see.
        InvalidRunConfig: If a field is invalid; `field` is its path.
    """
    base = _base(preset, asked_by)
    try:
        json_values.check(config)
    except json_values.NotStorable as error:
        raise InvalidRunConfig(error.field, error.message) from error
    parsed, errors = run_config.examined(run_config.merged(base, config))
    if parsed is not None:
        known = {error.field for error in errors}
        errors += [each for each in _registry_errors(parsed) if each.field not in known]
    if parsed is None or errors:
        raise run_config.combined(errors)
    return parsed


def _registry_errors(config: RunConfig) -> list[InvalidRunConfig]:
    """Return an error for each field that names what this server does not have or allow."""
    environment, policy = config.environment, config.policy
    policies = registered_extensions(extensions.POLICIES)
    lists = {
        extensions.WRAPPERS: environment.wrappers,
        extensions.ENVIRONMENT_CALLBACKS: environment.callbacks,
        extensions.STEP_CALLBACKS: environment.step_callbacks,
    }
    return run_config.errors_of(
        partial(
            environment_specs.check, environment.spec, registered=settings.ROLLDECK_ENVIRONMENTS
        ),
        *(
            partial(extensions.check, point, named, registered=registered_extensions(point))
            for point, named in lists.items()
        ),
        partial(policy_kinds.check, policy, registered=policies),
        partial(environment_specs.check_policy, environment.spec, policy.kind),
        partial(_check_directory, config),
        partial(_check_server, config),
        *(partial(check, config) for check in CONFIG_CHECKS),
    )


def _check_directory(config: RunConfig) -> None:
    if config.fleet.weights_transport == "directory" and not settings.ROLLDECK_WEIGHTS_DIRECTORY:
        raise InvalidRunConfig(
            "fleet.weights_transport", "no shared directory is set (ROLLDECK_WEIGHTS_DIRECTORY)"
        )


def _check_server(config: RunConfig) -> None:
    server = config.language.inference if config.language else ""
    if server and server not in settings.ROLLDECK_INFERENCE_SERVERS:
        raise InvalidRunConfig(
            "language.inference", f"unknown server {server!r} (ROLLDECK_INFERENCE_SERVERS)"
        )
    if config.language:
        kind = settings.ROLLDECK_INFERENCE_SERVERS[server].kind if server else ""
        if wrong := unsupported(config.language, kind=kind):
            raise InvalidRunConfig(*wrong)


def _base(preset: str, asked_by: User | None) -> dict[str, Any]:
    """Return the configuration of a preset; empty without one."""
    if not preset:
        return {}
    if preset in PRESETS:
        return run_config.to_builtins(PRESETS[preset][1])
    saved = presets.seen_by(asked_by).filter(name=preset).values_list("body", flat=True).first()
    if saved is None:
        raise UnknownPreset(f"preset {preset!r} not found; built in: {', '.join(PRESETS)}")
    return dict(saved)
