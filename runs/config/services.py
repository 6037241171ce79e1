"""Configurations of runs: build, validate and check them."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from runs.access.models import User
from runs.access.rules import Caller
from runs.config import queries as presets
from runs.config.queries import is_changeable
from runs.config.rules import extensions, run_config
from runs.config.rules.extensions import ExtensionPoint
from runs.config.rules.preset_rules import PRESET, PresetExists, check_name, lookup_of, secret_in
from runs.config.rules.run_config import PRESETS, InvalidRunConfig, RunConfig
from runs.config.rules.servers import unsupported
from runs.saved import services as saved
from runs.saved.models import SavedObject
from runs.saved.rules import Access, NotAllowedToChange
from web.rules import json_shape
from web.rules.errors import Conflict, Invalid

# Build and validate the configuration of a run.


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
    base: dict[str, Any] = {}
    if preset in PRESETS:
        base = run_config.to_builtins(PRESETS[preset][1])
    elif preset:
        rows = presets.seen_by(asked_by).filter(**lookup_of(preset))
        body = rows.values_list("body", flat=True).first()
        if body is None:
            raise UnknownPreset(f"preset {preset!r} not found; built in: {', '.join(PRESETS)}")
        base = dict(body)
    try:
        json_shape.check(config)
    except json_shape.NotStorable as error:
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
            extensions.check_environment,
            environment.spec,
            registered=settings.ROLLDECK_ENVIRONMENTS,
        ),
        *(
            partial(extensions.check, point, named, registered=registered_extensions(point))
            for point, named in lists.items()
        ),
        partial(extensions.check_policy, policy, registered=policies),
        partial(extensions.check_observations, environment.spec, policy.kind),
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


# Save, change and delete presets.

_COLUMNS: Final = {"description": "text", "config": "body"}


class PresetChanged(Conflict):
    """The preset was changed since it was read."""

    code = "preset_changed"
    title = "Changed by another request"


class InvalidAccess(Invalid):
    """A machine cannot own a private preset."""

    field = "access"


@transaction.atomic
def save_preset(
    *,
    name: str,
    config: dict[str, Any],
    description: str = "",
    access: str = Access.PRIVATE,
    person: User | None,
    actor: str,
    reason: str = "",
    now: datetime,
) -> SavedObject:
    """Save a complete, validated configuration under a new name.

    Args:
        name: Unique among all presets, including the built-in ones.
        config: Fields of a RunConfig that override the defaults.
        description: Short description for lists.
        access: One of :class:`runs.saved.rules.Access`.
        person: The owner; None for a machine.
        actor: Actor of the event.
        reason: Reason, for the audit log.
        now: Time of the save.

    Raises:
        InvalidPresetName: If the name has the form of an id.
        PresetExists: If a preset has this name, including private ones of other users.
        InvalidAccess: If a machine saves a private preset.
        InvalidRunConfig: If the configuration is invalid, or a value looks like a secret.
    """
    if person is None and access == Access.PRIVATE:
        raise InvalidAccess("a preset saved with a token must be shared or open")
    check_name(name)
    if name in PRESETS:
        raise PresetExists(f"{name!r} is a built-in preset")
    row = SavedObject(
        name=name,
        text=description,
        access=access,
        body=_checked(config, person=person),
        owner=person,
    )
    return saved.save(PRESET, row, actor=actor, reason=reason, now=now)


@transaction.atomic
def change_preset(
    *,
    address: str,
    revision: int,
    changes: dict[str, Any],
    person: User | None,
    caller: Caller,
    reason: str = "",
    now: datetime,
) -> SavedObject:
    """Change the `description`, `access` or `config` of a preset at a given revision.

    Raises:
        SavedObjectNotFound: If there is no such preset that the person may see.
        NotAllowedToChange: If the caller may use it but not change it.
        PresetChanged: If it has another revision.
        InvalidAccess: If a preset without an owner would become private.
        InvalidRunConfig: As for :func:`save_preset`.
    """
    row = _changeable(address, person=person, caller=caller)
    if changes.get("access") == Access.PRIVATE and row.owner is None:
        raise InvalidAccess("a preset without an owner cannot be private")
    columns = {_COLUMNS.get(field, field): value for field, value in changes.items()}
    if "body" in columns:
        columns["body"] = _checked(columns["body"], person=person)
    if row.revision != revision:
        raise PresetChanged(
            f"{row.changed_by} changed {row.name!r} since revision {revision}: reload it"
        )
    return saved.change(PRESET, row, columns, actor=caller.identity, reason=reason, now=now)


@transaction.atomic
def delete_preset(
    *, address: str, person: User | None, caller: Caller, reason: str = "", now: datetime
) -> None:
    """Delete a preset; runs created from it keep their configuration.

    Raises:
        SavedObjectNotFound: If there is no such preset that the person may see.
        NotAllowedToChange: If the caller may use it but not change it.
    """
    row = _changeable(address, person=person, caller=caller)
    saved.delete(row, actor=caller.identity, reason=reason, now=now)


def _changeable(address: str, *, person: User | None, caller: Caller) -> SavedObject:
    row = presets.preset_at(address, person=person, is_locked=True)
    if not is_changeable(row, person=person, caller=caller):
        owner = row.owner.get_username() if row.owner else "an administrator"
        raise NotAllowedToChange(f"only {owner} and administrators may change {row.name!r}")
    return row


def _checked(config: dict[str, Any], *, person: User | None) -> dict[str, Any]:
    """Return the complete configuration, with all defaults."""
    whole = run_config.to_builtins(configured(preset="", config=config, asked_by=person))
    secret = secret_in(whole)
    if secret is not None:
        raise InvalidRunConfig(
            secret, "looks like a secret, which presets must not contain: set it at each launch"
        )
    return whole
