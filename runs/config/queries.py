"""Read the saved presets that a user may see."""

from typing import cast

from django.db.models import Q

from runs.access import rules
from runs.access.models import User
from runs.access.rules import Caller
from runs.config.rules.preset_rules import PRESET, may_change
from runs.config.schemas import AccessName, SavedPresetRow
from runs.saved.models import SavedObject, SavedObjectQuerySet
from runs.saved.rules import Access


def seen_by(person: User | None) -> SavedObjectQuerySet:
    """Return the saved presets that a person (None for a machine) may use."""
    mine = Q(owner=person) if person is not None else Q(pk__in=[])
    found = SavedObject.objects.of(PRESET).filter(~Q(access=Access.PRIVATE) | mine)
    return found.select_related("owner").order_by("name")


def preset_named(name: str, *, person: User | None) -> SavedObject:
    """Return a saved preset.

    Raises:
        SavedObjectNotFound: If there is no such preset that the person may see.
    """
    return seen_by(person).one(f"saved preset {name!r} not found", name=name)


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
