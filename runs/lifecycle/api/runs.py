"""API views that create, show and control runs."""

from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import UNSET
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from runs.access.api.identity import identity_of, person_of
from runs.access.api.permissions import Known, Operators, Readers, RunMachines
from runs.config.rules import extensions, policy_kinds, run_config
from runs.config.services import registered_extensions
from runs.lifecycle.models import Run
from runs.lifecycle.queries import (
    EVENTS_PER_PAGE,
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
    EnvironmentList,
    EventList,
    Preset,
    RunConfigSchema,
    RunDetail,
)
from runs.lifecycle.services.launch_values import launch_values
from runs.lifecycle.services.lifecycle import change_status, create_and_start
from runs.lifecycle.services.run_settings import change_settings
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

EVENTS_PER_ANSWER = 100


class CreateRunView(ApiView):
    """Creation of runs; the list of runs extends it, on the same route."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: readers list runs, operators create them."""
        return [Operators() if self.request.method == "POST" else Readers()]

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
            created_by=person_of(request),
            actor=identity_of(request),
            now=timezone.now(),
        )
        return answer(run_detail(run), status=201)


class RunView(ApiView):
    """One run."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: readers and machines read the run, operators change it."""
        return [Operators() if self.request.method == "PATCH" else RunMachines()]

    @extend_schema(
        operation_id="runs_get",
        responses={200: RunDetail},
        tags=["runs"],
    )
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
        operation_id="run_environments_list",
        responses={200: EnvironmentList},
        tags=["runs"],
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
        operation_id="run_config_schema",
        responses={200: RunConfigSchema},
        tags=["runs"],
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
        schema = policy_kinds.with_registered(run_config.json_schema(), registered)
        choices = {point.field: registered_extensions(point) for point in extensions.LISTS}
        schema = extensions.with_choices(schema, choices)
        return answer(RunConfigSchema(schema=schema, presets=presets))
