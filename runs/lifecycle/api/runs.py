"""API views that create, show and control runs."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, ClassVar, Final

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import UNSET, Struct
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from runs.access.api.identity import identity_of, owner_of
from runs.access.api.permissions import (
    Anyone,
    Known,
    Operators,
    OperatorsToChange,
    Readers,
    RunMachines,
)
from runs.config.rules import extensions, run_config
from runs.config.services import registered_extensions
from runs.lifecycle.models import Run
from runs.lifecycle.queries import (
    EVENTS_PER_PAGE,
    deletion_row,
    deletions,
    environments,
    events,
    readable_run,
    run_detail,
    run_named,
)
from runs.lifecycle.rules import RunVerb
from runs.lifecycle.schemas import (
    ActionReason,
    ChangeRun,
    CreateRun,
    DeletionList,
    DeletionPreview,
    DeletionRow,
    EnvironmentList,
    EventList,
    Preset,
    RunConfigSchema,
    RunDetail,
)
from runs.lifecycle.services.deletion import delete_run, deletion_size, refusal
from runs.lifecycle.services.lifecycle import change_status, create_and_start, launch_values
from runs.lifecycle.services.settings import change_settings
from web.http.bodies import answer, read, reason_in
from web.http.openapi import REQUIRED_REASON, problems
from web.http.paging import page_of, page_parameters
from web.http.problems import PROBLEM_TYPE, Problem
from web.http.views import ApiView

# OpenAPI operations: summaries, statuses and path parameters derived from the views.

READS: Final = ("GET", "HEAD")
BODY_STATUSES: Final = (408, 413, 415)
"""Answers to a body that stops arriving, is too large or has an unknown encoding."""
DESCRIPTIONS: Final = {
    "200": "Success.",
    "201": "Created.",
    "202": "Accepted; the work is done in the background.",
    "204": "Success without content.",
    "206": "The requested range of bytes.",
    "400": "A parameter or the body is invalid.",
    "401": "Credentials are missing, invalid or expired.",
    "403": "The caller lacks the permission, or the CSRF token is missing.",
    "404": "The object does not exist.",
    "408": "The body stopped arriving.",
    "409": "The state of the object does not allow this.",
    "410": "The payload has expired or is lost.",
    "411": "Content-Length is missing.",
    "413": "The body is too large.",
    "415": "The media type or Content-Encoding is not supported.",
    "416": "The requested range is outside the file.",
    "422": "The content is invalid.",
    "429": "Too many requests; retry after the time in Retry-After.",
    "501": "The server lacks an optional package.",
    "503": "Temporarily unavailable; retry after the time in Retry-After.",
    "507": "The disk is nearly full.",
}
ErrorForm = tuple[str, type[Struct]]


class ErrorForms(Struct, frozen=True, kw_only=True):
    """Media type and message of a view's errors."""

    default: ErrorForm = (PROBLEM_TYPE, Problem)
    invalid: ErrorForm = (PROBLEM_TYPE, Problem)
    invalid_status: int = 400
    """Status of a request whose parameters or body are invalid."""


class OperationSchema(AutoSchema):
    """OpenAPI description of one operation.

    The first line of the method's docstring is the summary, the rest the description. Statuses
    that follow from permissions, parameters and the body are derived; a view lists the errors of
    its domain only, with `problems`.
    """

    forms: ClassVar[ErrorForms] = ErrorForms()

    def get_summary(self) -> str:
        """Return the first line of the docstring without its full stop."""
        summary = self._docstring().partition("\n")[0].rstrip(".")
        # Two paths may lead to one view; the suffix keeps their summaries apart.
        suffix: dict[str, str] = getattr(self.view, "summary_suffixes", {})
        return summary + next((text for at, text in suffix.items() if self.path.startswith(at)), "")

    def get_description(self) -> str:  # type: ignore[override] # as spectacular has it
        """Return the docstring below its first line, without its list of exceptions."""
        return self._docstring().partition("\n")[2].partition("Raises:")[0].strip()

    def get_auth(self) -> list[dict[str, Any]]:
        """Return the accepted credentials; none is one of them where a view is open."""
        accepted: list[dict[str, Any]] = super().get_auth()
        is_open = self._permissions() <= {Anyone} or getattr(self.view, "is_open_locally", False)
        return [*accepted, {}] if accepted and is_open else accepted

    def _docstring(self) -> str:
        method = getattr(self.view, self.method.lower())
        return cleandoc(method.__doc__ or type(self.view).__doc__ or "")

    def _permissions(self) -> set[type]:
        return {type(permission) for permission in self.view.get_permissions()}

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        """Add the derived statuses to those that the view lists."""
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status, (media_type, message) in self._derived_errors():
            code = str(status)
            if code not in bodies:
                bodies[code] = self._get_response_for_code(  # type: ignore[no-untyped-call]
                    message, code, [media_type], direction
                )
        for code, response in bodies.items():
            response["description"] = DESCRIPTIONS.get(code, "")
        return dict(sorted(bodies.items()))

    def _derived_errors(self) -> Iterator[tuple[int, ErrorForm]]:
        forms: ErrorForms = getattr(self.view, "error_forms", self.forms)
        has_body = self._get_request_body() is not None  # type: ignore[no-untyped-call]
        parameters = self._get_parameters()
        places = {parameter["in"] for parameter in parameters}
        names = {parameter["name"] for parameter in parameters}
        checks_query = getattr(self.view, "refuses_unknown_parameters", False)
        if checks_query or has_body or "query" in places or "Idempotency-Key" in names:
            yield forms.invalid_status, forms.invalid
        for status in BODY_STATUSES if has_body else ():
            # Answered before the request reaches the view.
            yield status, ErrorForms().default
        if "path" in places:
            yield 404, forms.default
        if "{run}" in self.path and (self.method not in READS or self.path.startswith("/atropos/")):
            yield 409, forms.default  # the run is archived
        # Those that follow from credentials and the database behind them.
        authenticators = self.view.get_authenticators()
        if not authenticators:
            return
        yield 503, forms.default
        sessions = [isinstance(one, SessionAuthentication) for one in authenticators]
        if not all(sessions) or self._permissions() - {Anyone}:
            yield 401, forms.default
        if self._permissions() - {Anyone, Known} or (any(sessions) and self.method not in READS):
            yield 403, forms.default


# API views that create, show and control runs.

EVENTS_PER_ANSWER = 100
DELETIONS_PER_PAGE = 200


class CreateRunView(ApiView):
    """Creation of runs; the list of runs extends it, on the same route."""

    permission_classes = [OperatorsToChange]

    @extend_schema(
        operation_id="runs_create",
        request=CreateRun,
        responses={201: RunDetail, **problems(409)},
        tags=["runs"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Create a run.

        Starts it if `start` is true. In a project, its defaults apply to omitted values.
        """
        body = read(request, CreateRun)
        values = launch_values(
            project=body.project,
            uses_defaults=body.uses_project_defaults,
            preset=None if body.preset is UNSET else body.preset,
            config=body.config,
            tags=None if body.tags is UNSET else body.tags,
            is_configured=body.kind == "fleet",
        )
        run = create_and_start(
            name=body.name,
            kind=body.kind,
            project=values.project,
            preset=values.preset,
            config=values.config,
            tags=values.tags,
            lenient=body.lenient,
            start=body.start,
            created_by=owner_of(request),
            actor=identity_of(request),
            now=timezone.now(),
        )
        return answer(run_detail(run), status=201)


class RunView(ApiView):
    """One run."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: readers and machines read the run, operators change it."""
        return [Operators() if self.request.method in ("PATCH", "DELETE") else RunMachines()]

    @extend_schema(operation_id="runs_get", responses={200: RunDetail}, tags=["runs"])
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get a run.

        With its configuration.
        """
        return answer(run_detail(readable_run(run)))

    @extend_schema(
        operation_id="runs_update",
        request=ChangeRun,
        responses={200: RunDetail, **problems(409)},
        tags=["runs"],
    )
    def patch(self, request: Request, run: str) -> HttpResponse:
        """Update a run.

        Changes settings that may change while a run is active.
        """
        changes: dict[str, Any] = msgspec.to_builtins(read(request, ChangeRun))
        reason = changes.pop("reason")
        changed: Run = change_settings(
            run_id=run_named(run).pk,
            changes=changes,
            actor=identity_of(request),
            reason=reason,
            now=timezone.now(),
        )
        return answer(run_detail(changed))

    @extend_schema(
        operation_id="runs_delete",
        parameters=[REQUIRED_REASON],
        request=None,
        responses={202: DeletionRow, **problems(409)},
        tags=["runs"],
    )
    def delete(self, request: Request, run: str) -> HttpResponse:
        """Delete a run.

        A run that is not active, with all its data. It disappears from all lists at once and its
        name is free; rows and bytes are removed in the background.
        """
        deletion = delete_run(
            address=run,
            actor=identity_of(request),
            reason=reason_in(request, is_required=True),
            now=timezone.now(),
        )
        return answer(deletion_row(deletion), status=202)


class StatusChangeView(ApiView):
    """A status change of a run; each verb has its own route."""

    permission_classes = [Operators]
    verb: RunVerb

    def post(self, request: Request, run: str) -> HttpResponse:
        """Apply the verb to the run."""
        body = read(request, ActionReason)
        moved: Run = change_status(
            run_id=run_named(run).pk,
            verb=self.verb,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(run_detail(moved))


class DeletionPreviewView(ApiView):
    """Preview of the deletion of a run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="runs_preview_deletion", responses={200: DeletionPreview}, tags=["runs"]
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Preview a run's deletion.

        The number of its groups or fragments, its stored bytes, and why it cannot be deleted now.
        """
        found = readable_run(run)
        size = deletion_size(found)
        preview = DeletionPreview(
            items=size.items, size_bytes=size.size_bytes, refusal=refusal(found)
        )
        return answer(preview)


class DeletionsView(ApiView):
    """Deletions of runs."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="deletions_list",
        parameters=page_parameters(default=50, most=DELETIONS_PER_PAGE),
        responses={200: DeletionList},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List deletions of runs.

        Newest first, with their progress.
        """
        page = page_of(request, int, default=50, most=DELETIONS_PER_PAGE)
        found = deletions(before=page.after, limit=page.limit + 1)
        rows, cursor = page.cut(found, lambda deletion: deletion.id)
        return answer(DeletionList(results=rows, next=cursor))


SUMMARIES = {
    RunVerb.START: ("Start a run", "Also restarts a stopped or failed run."),
    RunVerb.PAUSE: ("Pause a run", "Sampling stops; existing data is still accepted and served."),
    RunVerb.RESUME: ("Resume a run", ""),
    RunVerb.DRAIN: ("Drain a run", "Finishes started work, serves the queue, then completes."),
    RunVerb.STOP: ("Stop a run", "Drains with a deadline, then stops."),
    RunVerb.KILL: ("Kill a run", "Stops at once; lost items are counted."),
}


def status_change_view(verb: RunVerb) -> type[StatusChangeView]:
    """Return the view for `verb`, with its OpenAPI description."""
    summary, description = SUMMARIES[verb]

    class VerbView(StatusChangeView):
        @extend_schema(
            operation_id=f"runs_{verb}",
            summary=summary,
            description=description,
            request=ActionReason,
            responses={200: RunDetail, **problems(409)},
            tags=["runs"],
        )
        def post(self, request: Request, run: str) -> HttpResponse:
            return super().post(request, run)

    VerbView.verb = verb
    VerbView.__name__ = f"{verb.title()}View"
    VerbView.__doc__ = f"{summary}."
    return VerbView


class EventsView(ApiView):
    """The events of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="run_events_list",
        parameters=[
            OpenApiParameter("kinds", str, description="Comma-separated; omit for all."),
            *page_parameters(default=EVENTS_PER_ANSWER, most=EVENTS_PER_PAGE),
        ],
        responses={200: EventList},
        tags=["runs"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List a run's events.

        Newest first.
        """
        page = page_of(request, int, default=EVENTS_PER_ANSWER, most=EVENTS_PER_PAGE)
        kinds = [kind for kind in request.query_params.get("kinds", "").split(",") if kind]
        found = events(
            run_id=readable_run(run).pk,
            before=page.after,
            limit=page.limit + 1,
            kinds=[kind for kind in kinds if "\x00" not in kind],
        )
        rows, cursor = page.cut(found, lambda event: event.id)
        return answer(EventList(results=rows, next=cursor))


class EnvironmentsView(ApiView):
    """The environments of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="run_environments_list", responses={200: EnvironmentList}, tags=["runs"]
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List a run's environments.

        In the order of registration.
        """
        found = environments(run_id=readable_run(run).pk, now=timezone.now())
        return answer(EnvironmentList(results=found, next=None))


class RunConfigSchemaView(ApiView):
    """The launch form's schema."""

    permission_classes = [Known]

    @extend_schema(
        operation_id="run_config_schema", responses={200: RunConfigSchema}, tags=["runs"]
    )
    def get(self, request: Request) -> HttpResponse:
        """Get the run configuration schema.

        JSON Schema of a run's configuration, and the built-in presets.
        """
        presets = [
            Preset(name=name, title=title, config=run_config.to_builtins(config))
            for name, (title, config) in run_config.PRESETS.items()
        ]
        registered = registered_extensions(extensions.POLICIES)
        schema = extensions.with_policies(run_config.json_schema(), registered)
        choices = {point.field: registered_extensions(point) for point in extensions.LISTS}
        schema = extensions.with_choices(schema, choices)
        return answer(RunConfigSchema(schema=schema, presets=presets))
