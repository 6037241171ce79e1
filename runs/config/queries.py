"""Read the saved presets that a user may see."""

from typing import cast

from django.db.models import Q

from runs.access import rules
from runs.access.models import User
from runs.access.rules import Caller
from runs.config.rules.preset_rules import PRESET, lookup_of, may_change, uid_of
from runs.config.schemas import AccessName, SavedPresetRow
from runs.saved.models import SavedObject, SavedObjectQuerySet
from runs.saved.rules import Access


def seen_by(person: User | None) -> SavedObjectQuerySet:
    """Return the saved presets that a person (None for a machine) may use."""
    mine = Q(owner=person) if person is not None else Q(pk__in=[])
    found = SavedObject.objects.of(PRESET).filter(~Q(access=Access.PRIVATE) | mine)
    return found.select_related("owner").order_by("name")


def preset_at(address: str, *, person: User | None, is_locked: bool = False) -> SavedObject:
    """Return the saved preset with a name or an id, locked if a transaction changes it.

    Raises:
        SavedObjectNotFound: If there is no such preset that the person may see.
    """
    rows = seen_by(person).locked() if is_locked else seen_by(person)
    return rows.one(f"saved preset {address!r} not found", **lookup_of(address))


def preset_name(address: str, *, person: User | None) -> str:
    """Return the name of the built-in or saved preset with a name or an id.

    Raises:
        SavedObjectNotFound: If there is no preset with this id that the person may see.
    """
    return preset_at(address, person=person).name if "uid" in lookup_of(address) else address


def is_changeable(preset: SavedObject, *, person: User | None, caller: Caller) -> bool:
    """Return whether the caller may change or delete a preset."""
    return may_change(
        preset.access,
        is_owner=person is not None and preset.owner_id == person.pk,
        is_operator=rules.may_operate(caller),
        is_admin=rules.may_administer(caller),
    )


def preset_row(preset: SavedObject, *, person: User | None, caller: Caller) -> SavedPresetRow:
    """Return a saved preset for the API."""
    return SavedPresetRow(
        uid=uid_of(preset.uid),
        name=preset.name,
        description=preset.text,
        access=cast("AccessName", preset.access),
        kind="language" if preset.body.get("language") else "fleet",
        config=preset.body,
        owner=preset.owner.get_username() if preset.owner else None,
        revision=preset.revision,
        created_at=preset.created_at,
        changed_at=preset.changed_at,
        changed_by=preset.changed_by,
        may_change=is_changeable(preset, person=person, caller=caller),
    )
