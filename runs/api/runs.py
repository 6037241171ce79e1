"""API views that create, show and control runs."""

from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from runs import selectors, services
from runs.api.bodies import InvalidBody, answer, read, whole_number
from runs.api.identity import identity_of, person_of
from runs.api.openapi import between, problems
from runs.api.permissions import Known, Operators, Readers, RunMachines
from runs.core import run_config
from runs.core.lifecycle import RunStatus, RunVerb
from runs.models import Run
from runs.selectors import run_table
from runs.wire import (
    Ask,
    ChangeRun,
    CreateRun,
    EnvironmentList,
    EventList,
    Preset,
    RunConfigSchema,
    RunDetail,
)
from runs.wire.run_lists import RunList

EVENTS_PER_ANSWER = 100


class RunsView(APIView):
    """All current runs."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: readers list runs, operators create them."""
        return [Operators() if self.request.method == "POST" else Readers()]

    @extend_schema(
        operation_id="runs_list",
        parameters=[
            OpenApiParameter("q", description="A filter, such as `state:running env:gsm8k`."),
            OpenApiParameter("status", enum=[str(status) for status in RunStatus]),
            OpenApiParameter(
                "sort",
                enum=[sign + name for name in run_table.SORTS for sign in ("", "-")],
                description="Sort key; prefix a minus for descending order.",
            ),
            OpenApiParameter("after", description="`next` of the previous page."),
            OpenApiParameter("limit", between(1, run_table.ROWS_AT_MOST)),
        ],
        responses={200: RunList},
        tags=["runs"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List runs.

        Runs that match the filter, newest first unless `sort` is given.
        """
        asked, most = request.query_params, run_table.ROWS_AT_MOST
        status = asked.get("status", "")
        if status and status not in set(RunStatus):
            raise InvalidBody("status", f"must be one of {', '.join(RunStatus)}")
        limit = whole_number(request, "limit", default=most, at_least=1, at_most=most)
        page = run_table.run_page(
            text=f"{asked.get('q', '')} state:{status}" if status else asked.get("q", ""),
            sort=asked.get("sort", run_table.NEWEST_FIRST),
            after=asked.get("after", ""),
            limit=limit or most,
            now=timezone.now(),
        )
        return answer(page)

    @extend_schema(
        operation_id="runs_create",
        request=CreateRun,
        responses={201: RunDetail, **problems(409)},
        tags=["runs"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Create a run.

        Starts it if `start` is true.
        """
        wanted = read(request, CreateRun)
        run = services.create_and_start(
            name=wanted.name,
            kind=wanted.kind,
            preset=wanted.preset,
            config=wanted.config,
            tags=wanted.tags,
            lenient=wanted.lenient,
            start=wanted.start,
            created_by=person_of(request),
            actor=identity_of(request),
            now=timezone.now(),
        )
        return answer(selectors.run_detail(run), status=201)


class RunView(APIView):
    """One run."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: readers and machines read the run, operators change it."""
        return [Operators() if self.request.method == "PATCH" else RunMachines()]

    @extend_schema(
        operation_id="runs_show",
        responses={200: RunDetail},
        tags=["runs"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get a run.

        With its configuration.
        """
        return answer(selectors.run_detail(selectors.readable_run(run)))

    @extend_schema(
        operation_id="runs_change",
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
        changed: Run = services.change_settings(
            run_id=selectors.run_named(run).pk,
            changes=changes,
            actor=identity_of(request),
            reason=reason,
            now=timezone.now(),
        )
        return answer(selectors.run_detail(changed))


class AskView(APIView):
    """A status change of a run; each verb has its own route."""

    permission_classes = [Operators]
    verb: RunVerb

    def post(self, request: Request, run: str) -> HttpResponse:
        """Apply the verb to the run."""
        wanted = read(request, Ask)
        moved: Run = services.ask(
            run_id=selectors.run_named(run).pk,
            verb=self.verb,
            actor=identity_of(request),
            reason=wanted.reason,
            now=timezone.now(),
        )
        return answer(selectors.run_detail(moved))


SUMMARIES = {
    RunVerb.START: ("Start a run", "Also restarts a stopped or failed run."),
    RunVerb.PAUSE: ("Pause a run", "Sampling stops; existing data is still accepted and served."),
    RunVerb.RESUME: ("Resume a run", ""),
    RunVerb.DRAIN: ("Drain a run", "Finishes started work, serves the queue, then completes."),
    RunVerb.STOP: ("Stop a run", "Drains with a deadline, then stops."),
    RunVerb.KILL: ("Kill a run", "Stops at once; lost items are counted."),
}


def ask_view(verb: RunVerb) -> type[AskView]:
    """Return the view for `verb`, with its OpenAPI description."""
    summary, description = SUMMARIES[verb]

    class VerbView(AskView):
        @extend_schema(
            operation_id=f"runs_{verb}",
            summary=summary,
            description=description,
            request=Ask,
            responses={200: RunDetail, **problems(409)},
            tags=["runs"],
        )
        def post(self, request: Request, run: str) -> HttpResponse:
            return super().post(request, run)

    VerbView.verb = verb
    VerbView.__name__ = f"{verb.title()}View"
    VerbView.__doc__ = f"{summary}."
    return VerbView


class EventsView(APIView):
    """The events of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="runs_events",
        parameters=[
            OpenApiParameter(
                "before", between(1, (1 << 63) - 1), description="Only events with a smaller id."
            ),
            OpenApiParameter("limit", between(1, selectors.EVENTS_PER_PAGE)),
            OpenApiParameter("kinds", str, description="Comma-separated; omit for all."),
        ],
        responses={200: EventList},
        tags=["runs"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List a run's events.

        Newest first.
        """
        before = whole_number(request, "before", default=None, at_least=1, at_most=(1 << 63) - 1)
        limit = whole_number(
            request,
            "limit",
            default=EVENTS_PER_ANSWER,
            at_least=1,
            at_most=selectors.EVENTS_PER_PAGE,
        )
        kinds = [kind for kind in request.query_params.get("kinds", "").split(",") if kind]
        found = selectors.events(
            run_id=selectors.readable_run(run).pk,
            before=before,
            limit=limit or EVENTS_PER_ANSWER,
            kinds=[kind for kind in kinds if "\x00" not in kind],
        )
        return answer(EventList(results=found))


class EnvironmentsView(APIView):
    """The environments of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="runs_environments",
        responses={200: EnvironmentList},
        tags=["runs"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List a run's environments.

        In the order of registration.
        """
        found = selectors.environments(run_id=selectors.readable_run(run).pk, now=timezone.now())
        return answer(EnvironmentList(results=found))


class RunConfigSchemaView(APIView):
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
        return answer(RunConfigSchema(schema=run_config.json_schema(), presets=presets))
