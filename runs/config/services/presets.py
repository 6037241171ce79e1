"""Save, change and delete presets."""

from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from runs.access.rules.rights import Caller
from runs.config.queries import is_changeable, seen_by
from runs.config.rules import run_config
from runs.config.rules.preset_rules import PRESET, PresetExists, secret_in
from runs.config.rules.run_config import PRESETS, InvalidRunConfig
from runs.config.services.run_configs import configured
from runs.saved import services as saved
from runs.saved.models import SavedObject
from runs.saved.rules import Access, NotAllowedToChange
from web.rules.errors import Conflict, Invalid

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
        PresetExists: If a preset has this name, including private ones of other users.
        InvalidAccess: If a machine saves a private preset.
        InvalidRunConfig: If the configuration is invalid, or a value looks like a secret.
    """
    if person is None and access == Access.PRIVATE:
        raise InvalidAccess("a preset saved with a token must be shared or open")
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
    name: str,
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
    row = _changeable(name, person=person, caller=caller)
    if changes.get("access") == Access.PRIVATE and row.owner is None:
        raise InvalidAccess("a preset without an owner cannot be private")
    columns = {_COLUMNS.get(field, field): value for field, value in changes.items()}
    if "body" in columns:
        columns["body"] = _checked(columns["body"], person=person)
    if row.revision != revision:
        raise PresetChanged(
            f"{row.changed_by} changed {name!r} since revision {revision}: reload it"
        )
    return saved.change(PRESET, row, columns, actor=caller.identity, reason=reason, now=now)


@transaction.atomic
def delete_preset(
    *, name: str, person: User | None, caller: Caller, reason: str = "", now: datetime
) -> None:
    """Delete a preset; runs created from it keep their configuration.

    Raises:
        SavedObjectNotFound: If there is no such preset that the person may see.
        NotAllowedToChange: If the caller may use it but not change it.
    """
    row = _changeable(name, person=person, caller=caller)
    saved.delete(row, actor=caller.identity, reason=reason, now=now)


def _changeable(name: str, *, person: User | None, caller: Caller) -> SavedObject:
    row = seen_by(person).locked().one(f"saved preset {name!r} not found", name=name)
    if not is_changeable(row, person=person, caller=caller):
        owner = row.owner.get_username() if row.owner else "an administrator"
        raise NotAllowedToChange(f"only {owner} and administrators may change {name!r}")
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
