"""API views of group labels, pins, notes and sets."""

from dataclasses import asdict
from typing import Any, Final

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer.inspect.queries import marks
from buffer.inspect.schemas import marks as messages
from buffer.inspect.services.group_sets import change_set, drop_set
from buffer.inspect.services.marks import mark_groups, name_label
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Operators, Readers
from runs.lifecycle.models.runs import Run
from runs.lifecycle.queries.runs import readable_run, run_named
from runs.lifecycle.schemas.runs import ActionReason
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.views import ApiView

ANSWERS: Final[dict[Any, Any]] = {200: messages.MarkVocabulary}


def _vocabulary(run: Run) -> HttpResponse:
    found = marks.vocabulary(run.pk)
    return answer(
        messages.MarkVocabulary(
            labels=[
                messages.LabelRow(label=label, name=name, groups=found.labels.get(label, 0))
                for label, name in found.names.items()
            ],
            pinned=found.pinned,
            noted=found.noted,
            sets=[msgspec.convert(asdict(one), messages.SetOfGroups) for one in found.sets],
        )
    )


class MarksView(ApiView):
    """Labels, pins and notes of a run's groups."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permissions: readers read, operators write."""
        return [Readers() if self.request.method == "GET" else Operators()]

    @extend_schema(operation_id="marks_get", responses=ANSWERS, tags=["groups"])
    def get(self, request: Request, run: str) -> HttpResponse:
        """List labels and sets.

        With the number of groups of each.
        """
        return _vocabulary(readable_run(run))

    @extend_schema(
        operation_id="marks_update",
        request=messages.MarkGroups,
        responses=ANSWERS,
        tags=["groups"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Mark trajectory groups.

        Labels, pins or annotates up to 200 groups; earlier values are kept in the audit
        log.
        """
        body = read(request, messages.MarkGroups)
        found = run_named(run)
        fields = {name: getattr(body, name) for name in ("label", "is_pinned", "note")}
        mark_groups(
            run_id=found.pk,
            group_ids=body.groups,
            changes={name: value for name, value in fields.items() if value is not msgspec.UNSET},
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return _vocabulary(found)


class LabelView(ApiView):
    """One of the nine labels of a run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="labels_update", request=messages.NameLabel, responses=ANSWERS, tags=["groups"]
    )
    def put(self, request: Request, run: str, label: int) -> HttpResponse:
        """Name a label.

        The name applies to this run.
        """
        body = read(request, messages.NameLabel)
        found = run_named(run)
        name_label(
            run_id=found.pk,
            label=label,
            name=body.name,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return _vocabulary(found)


class SetView(ApiView):
    """A set of groups."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="sets_change",
        request=messages.ChangeSet,
        responses={**ANSWERS, **problems(409)},
        tags=["groups"],
    )
    def post(self, request: Request, run: str, group_set: str) -> HttpResponse:
        """Change a set's groups.

        Adds and removes groups; a new set is created.
        """
        body = read(request, messages.ChangeSet)
        found = run_named(run)
        change_set(
            run_id=found.pk,
            name=group_set,
            add=body.add,
            remove=body.remove,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return _vocabulary(found)


class SetDeletionView(ApiView):
    """Deletion of a set of groups."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="sets_drop", request=ActionReason, responses=ANSWERS, tags=["groups"]
    )
    def post(self, request: Request, run: str, group_set: str) -> HttpResponse:
        """Delete a set.

        Its groups are kept; the audit log keeps their ids.
        """
        body = read(request, ActionReason)
        found = run_named(run)
        drop_set(
            run_id=found.pk,
            name=group_set,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return _vocabulary(found)
