"""API views of weights: publish, list, pin, hold and synchronise."""

from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from rolldeck.wire import WeightsManifest
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, readable_by, scoped
from runs.lifecycle.models import PolicyVersion
from runs.lifecycle.queries import (
    current_weights,
    policy_versions,
    readable_run,
    run_id_named,
    run_named,
    weights,
    weights_directory,
    weights_file,
)
from runs.lifecycle.schemas import PolicyVersionList
from runs.weights.queries import COMMANDS_AT_MOST, acting_step, newest_command, weights_commands
from runs.weights.schemas import WeightsCommands, WeightsPin, WeightsRequest
from runs.weights.services import pin_weights, publish_weights, sync_weights, unpin_weights
from web.http import byte_ranges
from web.http.bodies import InvalidBody, answer, decoded, read, whole_number
from web.http.openapi import between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

# API views that publish and download weights.

FORM = {
    "multipart/form-data": {
        "type": "object",
        "required": ["manifest"],
        "properties": {
            "manifest": {"type": "string", "description": "A WeightsManifest as JSON."},
            "weights": {
                "type": "string",
                "format": "binary",
                "description": "safetensors; omitted if the run's weights are transferred "
                "through a shared directory",
            },
        },
    }
}


def _manifest(version: PolicyVersion, *, status: int = 200) -> HttpResponse:
    return answer(WeightsManifest(**version.manifest), status=status)


class WeightsView(ApiView):
    """The weights of a run."""

    parser_classes = [MultiPartParser]

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: readers and machines list versions, trainers publish."""
        is_published = self.request.method == "POST"
        return [scoped("trainer")() if is_published else readable_by("trainer", "worker")()]

    @extend_schema(
        operation_id="weights_list",
        parameters=[
            OpenApiParameter(
                "id", between(1, (1 << 63) - 1), description="Only the version with this id."
            ),
            *page_parameters(default=50, most=200),
        ],
        responses={200: PolicyVersionList},
        tags=["weights"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List policy versions.

        Newest first.
        """
        page = page_of(request, int, default=50, most=200)
        only = whole_number(request, "id", default=None, at_least=1, at_most=(1 << 63) - 1)
        run_id = readable_run(run).pk
        found = policy_versions(run_id=run_id, before=page.after, only=only, limit=page.limit + 1)
        rows, cursor = page.cut(found, lambda version: version.id)
        return answer(PolicyVersionList(results=rows, next=cursor))

    @extend_schema(
        operation_id="weights_publish",
        request=FORM,
        responses={200: WeightsManifest, 201: WeightsManifest, **problems(409, 413, 415, 422, 507)},
        tags=["weights"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Publish a policy version.

        A repeated upload of the same version is answered with 200.
        """
        target = run_named(run)
        form: Any = request.data
        written, file = form.get("manifest"), form.get("weights")
        if written is None:
            raise InvalidBody("manifest", "required")
        if file is not None and not isinstance(file, UploadedFile):
            raise InvalidBody("weights", "must be a file")
        raw = written.read() if isinstance(written, UploadedFile) else written.encode()
        manifest = decoded(raw, WeightsManifest, inside="manifest")
        if file is None and not weights_directory(target):
            raise InvalidBody("weights", "required")
        version, is_new = publish_weights(
            run_id=target.pk,
            manifest=manifest,
            file=file,
            identity=identity_of(request),
            now=timezone.now(),
        )
        return _manifest(version, status=201 if is_new else 200)


class CurrentWeightsView(ApiView):
    """The newest weights."""

    permission_classes = [readable_by("trainer", "worker")]

    @extend_schema(
        operation_id="weights_current",
        parameters=[
            OpenApiParameter(
                "acting",
                between(0, 1),
                description="`1` for the version that workers should use, which an operator may "
                "have pinned; absent for the newest.",
            )
        ],
        responses={200: WeightsManifest},
        tags=["weights"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the current policy version.

        Its manifest.
        """
        target = readable_run(run)
        if not whole_number(request, "acting", default=0, at_least=0, at_most=1):
            return _manifest(current_weights(run=target))
        step = acting_step(target, newest_command(target.pk))
        return _manifest(weights(run=target, epoch=target.epoch, step=step))


class WeightsFileView(ApiView):
    """The bytes of one policy version."""

    permission_classes = [readable_by("trainer", "worker")]

    @extend_schema(
        operation_id="weights_download",
        parameters=[OpenApiParameter("Range", location=OpenApiParameter.HEADER)],
        responses={
            (200, "application/octet-stream"): OpenApiTypes.BINARY,
            (206, "application/octet-stream"): OpenApiTypes.BINARY,
            **problems(416),
        },
        tags=["weights"],
    )
    def get(self, request: Request, run: str, epoch: int, step: int) -> HttpResponseBase:
        """Download a policy version.

        Supports byte ranges.
        """
        version = weights(run=readable_run(run), epoch=epoch, step=step)
        file = weights_file(version)
        return byte_ranges.respond(request, file, size=version.size_bytes, etag=version.sha256)


# API views that pin, unpin and reload weights.


def _answer(request: Request, run: str) -> HttpResponse:
    path = f"/api/v1/runs/{run}/weights/commands"
    page = page_of(request, int, default=COMMANDS_AT_MOST, most=COMMANDS_AT_MOST, path=path)
    return answer(weights_commands(readable_run(run), page))


class WeightsCommandsView(ApiView):
    """The weights commands of a run."""

    permission_classes = [readable_by("trainer", "worker")]

    @extend_schema(
        operation_id="weights_commands",
        parameters=page_parameters(default=COMMANDS_AT_MOST, most=COMMANDS_AT_MOST),
        responses={200: WeightsCommands},
        tags=["weights"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List weight orders.

        The policy version in use, and its pins and reloads, newest first.
        """
        return _answer(request, run)


class WeightsPinView(ApiView):
    """A pin of a policy version."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="weights_pin",
        request=WeightsPin,
        responses={200: WeightsCommands, **problems(409)},
        tags=["weights"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Pin a policy version.

        Workers keep the version although newer ones are published.
        """
        body = read(request, WeightsPin)
        pin_weights(
            run_id=run_id_named(run),
            step=body.step,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return _answer(request, run)


class WeightsUnpinView(ApiView):
    """Removal of a pin."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="weights_unpin",
        request=WeightsRequest,
        responses={200: WeightsCommands, **problems(409)},
        tags=["weights"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Unpin the policy version.

        Workers follow the newest version again.
        """
        unpin_weights(
            run_id=run_id_named(run),
            actor=identity_of(request),
            reason=read(request, WeightsRequest).reason,
            now=timezone.now(),
        )
        return _answer(request, run)


class WeightsSyncView(ApiView):
    """Reload of the weights."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="weights_sync",
        request=WeightsRequest,
        responses={200: WeightsCommands, **problems(409)},
        tags=["weights"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Reload the weights.

        The fleet downloads the current version again and every worker reloads it.
        """
        sync_weights(
            run_id=run_id_named(run),
            actor=identity_of(request),
            reason=read(request, WeightsRequest).reason,
            now=timezone.now(),
        )
        return _answer(request, run)
