"""Save, show, change and delete presets."""

from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from runs import services
from runs.api.bodies import answer, read, reason_in
from runs.api.identity import caller_of, identity_of, person_of
from runs.api.openapi import REASON, problems
from runs.api.permissions import Operators, Readers
from runs.models import SavedPreset
from runs.selectors import presets
from runs.wire.presets import ChangePreset, SavedPresetList, SavedPresetRow, SavePreset


class PresetsView(APIView):
    """The presets that people saved."""

    def get_permissions(self) -> list[BasePermission]:
        """Let readers look and operators save."""
        return [Operators() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="presets_list",
        responses={200: SavedPresetList, **problems(401, 403)},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List saved presets: everybody's, and one's own; `run-config-schema` has the others."""
        found = presets.seen_by(person_of(request))
        return answer(SavedPresetList(results=[_shown(one, request) for one in found]))

    @extend_schema(
        operation_id="presets_save",
        request=SavePreset,
        responses={201: SavedPresetRow, **problems(400, 401, 403, 409)},
        tags=["runs"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Keep a configuration under a name; one that is wrong, or holds a secret, is refused."""
        wanted = read(request, SavePreset)
        saved = services.save_preset(
            name=wanted.name,
            config=wanted.config,
            description=wanted.description,
            access=wanted.access,
            person=person_of(request),
            actor=identity_of(request),
            reason=wanted.reason,
            now=timezone.now(),
        )
        return answer(_shown(saved, request), status=201)


class PresetView(APIView):
    """One saved preset."""

    def get_permissions(self) -> list[BasePermission]:
        """Let readers look, and operators change what they may."""
        return [Readers() if self.request.method == "GET" else Operators()]

    @extend_schema(
        operation_id="presets_show",
        responses={200: SavedPresetRow, **problems(401, 403, 404)},
        tags=["runs"],
    )
    def get(self, request: Request, preset: str) -> HttpResponse:
        """Show a saved preset."""
        return answer(_shown(presets.preset_named(preset, person=person_of(request)), request))

    @extend_schema(
        operation_id="presets_change",
        request=ChangePreset,
        responses={200: SavedPresetRow, **problems(400, 401, 403, 404, 409)},
        tags=["runs"],
    )
    def patch(self, request: Request, preset: str) -> HttpResponse:
        """Change a saved preset; refused if somebody else did since it was read."""
        changes: dict[str, Any] = msgspec.to_builtins(read(request, ChangePreset))
        changed = services.change_preset(
            name=preset,
            revision=changes.pop("revision"),
            reason=changes.pop("reason"),
            changes=changes,
            person=person_of(request),
            caller=caller_of(request),
            now=timezone.now(),
        )
        return answer(_shown(changed, request))

    @extend_schema(
        operation_id="presets_delete",
        parameters=[REASON],
        responses={204: None, **problems(400, 401, 403, 404)},
        tags=["runs"],
    )
    def delete(self, request: Request, preset: str) -> HttpResponse:
        """Delete a saved preset; runs that were made from it keep what they are."""
        services.delete_preset(
            name=preset,
            person=person_of(request),
            caller=caller_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)


def _shown(preset: SavedPreset, request: Request) -> SavedPresetRow:
    return presets.preset_row(preset, person=person_of(request), caller=caller_of(request))
