"""API views of saved presets."""

from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from runs.access.api.identity import caller_of, identity_of, person_of
from runs.access.api.permissions import OperatorsToChange
from runs.config import queries as presets
from runs.config.schemas import ChangePreset, SavedPresetList, SavedPresetRow, SavePreset
from runs.config.services import change_preset, delete_preset, save_preset
from runs.saved.models import SavedObject
from web.http.bodies import answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.views import ApiView


class PresetsView(ApiView):
    """The saved presets."""

    permission_classes = [OperatorsToChange]

    @extend_schema(operation_id="presets_list", responses={200: SavedPresetList}, tags=["runs"])
    def get(self, request: Request) -> HttpResponse:
        """List saved presets.

        Shared presets and your own, by name; `GET /api/v1/run-config-schema` returns the built-in
        ones.
        """
        found = presets.seen_by(person_of(request))
        return answer(SavedPresetList(results=[_shown(one, request) for one in found], next=None))

    @extend_schema(
        operation_id="presets_create",
        request=SavePreset,
        responses={201: SavedPresetRow, **problems(409)},
        tags=["runs"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Save a preset.

        An invalid configuration, or one that contains a secret, is refused.
        """
        body = read(request, SavePreset)
        saved = save_preset(
            name=body.name,
            config=body.config,
            description=body.description,
            access=body.access,
            person=person_of(request),
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(_shown(saved, request), status=201)


class PresetView(ApiView):
    """One saved preset."""

    permission_classes = [OperatorsToChange]

    @extend_schema(operation_id="presets_get", responses={200: SavedPresetRow}, tags=["runs"])
    def get(self, request: Request, preset: str) -> HttpResponse:
        """Get a preset."""
        return answer(_shown(presets.preset_at(preset, person=person_of(request)), request))

    @extend_schema(
        operation_id="presets_update",
        request=ChangePreset,
        responses={200: SavedPresetRow, **problems(409)},
        tags=["runs"],
    )
    def patch(self, request: Request, preset: str) -> HttpResponse:
        """Update a preset.

        Refused if it has changed since you read it.
        """
        changes: dict[str, Any] = msgspec.to_builtins(read(request, ChangePreset))
        changed = change_preset(
            address=preset,
            revision=changes.pop("revision"),
            reason=changes.pop("reason"),
            changes=changes,
            person=person_of(request),
            caller=caller_of(request),
            now=timezone.now(),
        )
        return answer(_shown(changed, request))

    @extend_schema(
        operation_id="presets_delete", parameters=[REASON], responses={204: None}, tags=["runs"]
    )
    def delete(self, request: Request, preset: str) -> HttpResponse:
        """Delete a preset.

        Runs created from it are not changed.
        """
        delete_preset(
            address=preset,
            person=person_of(request),
            caller=caller_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)


def _shown(preset: SavedObject, request: Request) -> SavedPresetRow:
    return presets.preset_row(preset, person=person_of(request), caller=caller_of(request))
