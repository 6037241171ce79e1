"""Read the saved presets that a user may see."""

from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from runs.access.rules import rights
from runs.access.rules.rights import Caller
from runs.config.models import SavedPreset
from runs.config.rules.preset_rules import Access, may_change
from runs.config.schemas import SavedPresetRow
from web.rules.errors import NotFound


class PresetNotFound(NotFound):
    """The preset does not exist, or is another user's private preset."""


def seen_by(person: User | None) -> QuerySet[SavedPreset]:
    """Return the saved presets that a person (None for a machine) may use."""
    mine = Q(owner=person) if person is not None else Q(pk__in=[])
    found = SavedPreset.objects.filter(deleted_at=None).filter(~Q(access=Access.PRIVATE) | mine)
    return found.select_related("owner").order_by("name")


def preset_named(name: str, *, person: User | None) -> SavedPreset:
    """Return a saved preset.

    Raises:
        PresetNotFound: If there is no such preset that the person may see.
    """
    preset = seen_by(person).filter(name=name).first()
    if preset is None:
        raise PresetNotFound(f"saved preset {name!r} not found")
    return preset


def is_changeable(preset: SavedPreset, *, person: User | None, caller: Caller) -> bool:
    """Return whether the caller may change or delete a preset."""
    return may_change(
        preset.access,
        is_owner=person is not None and preset.owner_id == person.pk,
        is_operator=rights.may_operate(caller),
        is_admin=rights.may_administer(caller),
    )


def preset_row(preset: SavedPreset, *, person: User | None, caller: Caller) -> SavedPresetRow:
    """Return a saved preset for the API."""
    same: dict[str, Any] = {
        field: getattr(preset, field)
        for field in SavedPresetRow.__struct_fields__
        if field not in ("kind", "owner", "may_change")
    }
    return SavedPresetRow(
        **same,
        kind="language" if preset.config.get("language") else "fleet",
        owner=preset.owner.get_username() if preset.owner else None,
        may_change=is_changeable(preset, person=person, caller=caller),
    )
