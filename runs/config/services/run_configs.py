"""Build and validate the configuration of a run."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from runs.config import queries as presets
from runs.config.rules import (
    environment_specs,
    extensions,
    policy_kinds,
    run_config,
    simulated_fleet,
)
from runs.config.rules.run_config import PRESETS, InvalidRunConfig, RunConfig
from runs.config.services import config_checks
from runs.config.services.registered_extensions import registered_extensions
from web.rules import json_values
from web.rules.errors import Invalid


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
    parsed = run_config.parse(run_config.merged(base, config))
    spec = parsed.environment.spec
    registered = {*settings.ROLLDECK_ENVIRONMENTS}
    if settings.ROLLDECK_SIMULATION:
        registered |= simulated_fleet.PROFILES.keys()
    environment_specs.check(spec, registered=registered)
    for point, extension_list in (
        (extensions.WRAPPERS, parsed.environment.wrappers),
        (extensions.ENVIRONMENT_CALLBACKS, parsed.environment.callbacks),
        (extensions.STEP_CALLBACKS, parsed.environment.step_callbacks),
    ):
        extensions.check(point, extension_list, registered=registered_extensions(point))
    simulated_fleet.simulation_of(spec, parsed.environment.kwargs)
    policy_kinds.check(parsed.policy, registered=registered_extensions(extensions.POLICIES))
    environment_specs.check_policy(spec, parsed.policy.kind)
    if parsed.fleet.weights_transport == "directory" and not settings.ROLLDECK_WEIGHTS_DIRECTORY:
        raise InvalidRunConfig(
            "fleet.weights_transport", "no shared directory is set (ROLLDECK_WEIGHTS_DIRECTORY)"
        )
    server = parsed.language.inference if parsed.language else ""
    if server and server not in settings.ROLLDECK_INFERENCE_SERVERS:
        raise InvalidRunConfig(
            "language.inference", f"unknown server {server!r} (ROLLDECK_INFERENCE_SERVERS)"
        )
    config_checks.check_all(parsed)
    return parsed


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
