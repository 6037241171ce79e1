"""Save, change and delete presets."""

from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F

from runs.access.rules.rights import Caller
from runs.config.models import SavedPreset
from runs.config.queries import PresetNotFound, is_changeable, preset_named
from runs.config.rules import run_config
from runs.config.rules.preset_rules import Access, differences, secret_in
from runs.config.rules.run_config import PRESETS, InvalidRunConfig
from runs.config.services.run_configs import configured
from runs.events.services import ACTOR_LENGTH, record_event
from web.rules.errors import Conflict, Forbidden, Invalid

UNLISTED: Final = frozenset({"config"})
"""Fields of private presets that the audit log omits."""


class PresetExists(Conflict):
    """A preset has this name."""

    code = "preset_exists"
    title = "Name taken"
    field = "name"


class PresetChanged(Conflict):
    """The preset was changed since it was read."""

    code = "preset_changed"
    title = "Changed by another request"


class PresetNotYours(Forbidden):
    """The preset may be used but not changed."""


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
) -> SavedPreset:
    """Save a complete, validated configuration under a new name.

    Args:
        name: Unique among all presets, including the built-in ones.
        config: Fields of a RunConfig that override the defaults.
        description: Short description for lists.
        access: One of :class:`runs.config.rules.preset_rules.Access`.
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
    kept = _checked(config, person=person)
    try:
        with transaction.atomic():
            preset = SavedPreset.objects.create(
                name=name,
                description=description,
                access=access,
                config=kept,
                owner=person,
                created_at=now,
                changed_at=now,
                changed_by=actor[:ACTOR_LENGTH],
            )
    except IntegrityError as error:
        raise PresetExists(f"a preset named {name!r} already exists") from error
    record_event(
        run_id=None,
        kind="preset_saved",
        message=f"preset {name} saved, {access}",
        actor=actor,
        reason=reason,
        details={"preset": name, "access": access},
        now=now,
    )
    return preset


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
) -> SavedPreset:
    """Change the `description`, `access` or `config` of a preset at a given revision.

    Raises:
        PresetNotFound: If there is no such preset that the person may see.
        PresetNotYours: If the caller may use it but not change it.
        PresetChanged: If it has another revision.
        InvalidAccess: If a preset without an owner would become private.
        InvalidRunConfig: As for :func:`save_preset`.
    """
    before = _changeable(name, person=person, caller=caller)
    if changes.get("access") == Access.PRIVATE and before.owner is None:
        raise InvalidAccess("a preset without an owner cannot be private")
    if "config" in changes:
        changes = changes | {"config": _checked(changes["config"], person=person)}
    changed = SavedPreset.objects.filter(pk=before.pk, deleted_at=None, revision=revision).update(
        **changes,
        revision=F("revision") + 1,
        changed_at=now,
        changed_by=caller.identity[:ACTOR_LENGTH],
    )
    if changed != 1:
        raise PresetChanged(
            f"{before.changed_by} changed {name!r} since revision {revision}: reload it"
        )
    after = SavedPreset.objects.select_related("owner").get(pk=before.pk)
    record_event(
        run_id=None,
        kind="preset_changed",
        message=f"preset {name} changed: {', '.join(sorted(changes)) or 'nothing'}",
        actor=caller.identity,
        reason=reason,
        details=_told(before, after),
        now=now,
    )
    return after


@transaction.atomic
def delete_preset(
    *, name: str, person: User | None, caller: Caller, reason: str = "", now: datetime
) -> None:
    """Delete a preset; runs created from it keep their configuration.

    Raises:
        PresetNotFound: If there is no such preset that the person may see.
        PresetNotYours: If the caller may use it but not change it.
    """
    preset = _changeable(name, person=person, caller=caller)
    if not SavedPreset.objects.filter(pk=preset.pk, deleted_at=None).update(deleted_at=now):
        raise PresetNotFound(f"saved preset {name!r} not found")
    record_event(
        run_id=None,
        kind="preset_deleted",
        message=f"preset {name} deleted",
        actor=caller.identity,
        reason=reason,
        details={"preset": name},
        now=now,
    )


def _changeable(name: str, *, person: User | None, caller: Caller) -> SavedPreset:
    preset = preset_named(name, person=person)
    if not is_changeable(preset, person=person, caller=caller):
        owner = preset.owner.get_username() if preset.owner else "an administrator"
        raise PresetNotYours(f"only {owner} and administrators may change {name!r}")
    return preset


def _checked(config: dict[str, Any], *, person: User | None) -> dict[str, Any]:
    """Return the complete configuration, with all defaults."""
    whole = run_config.to_builtins(configured(preset="", config=config, asked_by=person))
    secret = secret_in(whole)
    if secret is not None:
        raise InvalidRunConfig(
            secret, "looks like a secret, which presets must not contain: set it at each launch"
        )
    return whole


def _told(before: SavedPreset, after: SavedPreset) -> dict[str, Any]:
    """Return the details of a change event."""
    told = differences(_fields(before), _fields(after))
    if Access.PRIVATE not in {before.access, after.access}:
        return {"preset": after.name, **told}
    return {"preset": after.name} | {
        path: change for path, change in told.items() if path.partition(".")[0] not in UNLISTED
    }


def _fields(preset: SavedPreset) -> dict[str, Any]:
    return {name: getattr(preset, name) for name in ("description", "access", "config")}
