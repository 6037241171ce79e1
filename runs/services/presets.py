"""Keep configurations under a name, change them and take them away."""

from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F

from runs.core import run_config
from runs.core.preset_rules import Access, differences, secret_in
from runs.core.rights import Caller
from runs.core.run_config import PRESETS, InvalidRunConfig
from runs.models import SavedPreset
from runs.selectors.presets import PresetNotFound, is_changeable, preset_named
from runs.services.events import ACTOR_LENGTH, record_event
from runs.services.lifecycle import configured

UNLISTED: Final = frozenset({"config"})
"""Of a preset that is somebody's own, the audit does not tell what is in it."""


class PresetExists(Exception):
    """There is a preset of this name."""

    field = "name"


class PresetChanged(Exception):
    """Somebody changed the preset since it was read."""


class PresetNotYours(Exception):
    """Others may start from the preset, and not change it."""


class InvalidAccess(ValueError):
    """A machine cannot keep a preset to itself."""

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
    """Keep a configuration, whole and checked, under a name that is not taken.

    Args:
        name: Unique among all presets, the built-in ones too.
        config: Fields of a RunConfig, laid over the defaults.
        description: For whoever chooses among them.
        access: One of :class:`runs.core.preset_rules.Access`.
        person: Whose it is; None for a machine's.
        actor: Who the event names.
        reason: Why, for the audit.
        now: Time of the save.

    Raises:
        PresetExists: If a preset has this name; a private one of somebody else too.
        InvalidAccess: If a machine would keep it to itself.
        InvalidRunConfig: If the configuration is wrong, or a text in it looks like a secret.
    """
    if person is None and access == Access.PRIVATE:
        raise InvalidAccess("a token's preset must be shared or open: a machine has nothing alone")
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
        raise PresetExists(f"there is a preset {name!r} already") from error
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
    """Change the `description`, `access` or `config` of a preset that nobody else changed.

    Raises:
        PresetNotFound: If there is none that the person may see.
        PresetNotYours: If it may only be used.
        PresetChanged: If it is at another revision by now.
        InvalidAccess: If a machine's would be nobody's to see.
        InvalidRunConfig: As at :func:`save_preset`.
    """
    before = _changeable(name, person=person, caller=caller)
    if changes.get("access") == Access.PRIVATE and before.owner is None:
        raise InvalidAccess("nobody owns it, so it cannot be kept from everybody")
    if "config" in changes:
        changes = changes | {"config": _checked(changes["config"], person=person)}
    changed = SavedPreset.objects.filter(pk=before.pk, deleted_at=None, revision=revision).update(
        **changes,
        revision=F("revision") + 1,
        changed_at=now,
        changed_by=caller.identity[:ACTOR_LENGTH],
    )
    if changed != 1:
        raise PresetChanged(f"{before.changed_by} changed {name!r} meanwhile: look at it again")
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
    """Take a preset away; runs that began with it keep what they were configured as.

    Raises:
        PresetNotFound: If there is none that the person may see.
        PresetNotYours: If it may only be used.
    """
    preset = _changeable(name, person=person, caller=caller)
    if not SavedPreset.objects.filter(pk=preset.pk, deleted_at=None).update(deleted_at=now):
        raise PresetNotFound(f"there is no saved preset {name!r}")
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
        raise PresetNotYours(f"only {owner} and administrators change {name!r}")
    return preset


def _checked(config: dict[str, Any], *, person: User | None) -> dict[str, Any]:
    """Return the whole configuration, every default written out."""
    whole = run_config.to_builtins(configured(preset="", config=config, asked_by=person))
    secret = secret_in(whole)
    if secret is not None:
        raise InvalidRunConfig(
            secret, "this looks like a secret, which no preset keeps: leave it to each launch"
        )
    return whole


def _told(before: SavedPreset, after: SavedPreset) -> dict[str, Any]:
    """Return what an event tells of a change."""
    told = differences(_fields(before), _fields(after))
    if Access.PRIVATE not in {before.access, after.access}:
        return {"preset": after.name, **told}
    return {"preset": after.name} | {
        path: change for path, change in told.items() if path.partition(".")[0] not in UNLISTED
    }


def _fields(preset: SavedPreset) -> dict[str, Any]:
    return {name: getattr(preset, name) for name in ("description", "access", "config")}
