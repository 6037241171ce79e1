"""Read the presets that people saved, as far as whoever asks may see them."""

from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from runs.core import rights
from runs.core.preset_rules import Access, may_change
from runs.core.rights import Caller
from runs.models import SavedPreset
from runs.wire.presets import SavedPresetRow


class PresetNotFound(LookupError):
    """There is no such preset, or it is somebody else's own."""


def seen_by(person: User | None) -> QuerySet[SavedPreset]:
    """Return the saved presets that a person (None: a machine) may start from."""
    mine = Q(owner=person) if person is not None else Q(pk__in=[])
    found = SavedPreset.objects.filter(deleted_at=None).filter(~Q(access=Access.PRIVATE) | mine)
    return found.select_related("owner").order_by("name")


def preset_named(name: str, *, person: User | None) -> SavedPreset:
    """Return a saved preset.

    Raises:
        PresetNotFound: If there is none that the person may see.
    """
    preset = seen_by(person).filter(name=name).first()
    if preset is None:
        raise PresetNotFound(f"there is no saved preset {name!r}")
    return preset


def is_changeable(preset: SavedPreset, *, person: User | None, caller: Caller) -> bool:
    """Return whether somebody may change or delete a preset."""
    return may_change(
        preset.access,
        is_owner=person is not None and preset.owner_id == person.pk,
        is_operator=rights.may_operate(caller),
        is_admin=rights.may_administer(caller),
    )


def preset_row(preset: SavedPreset, *, person: User | None, caller: Caller) -> SavedPresetRow:
    """Return a saved preset as the API shows it."""
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
