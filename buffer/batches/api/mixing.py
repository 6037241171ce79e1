"""API views of the environment mix and of the next batch's preview."""

from dataclasses import asdict
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.batches.api.fragments import WrongKind
from buffer.batches.schemas import batches as messages
from buffer.batches.services.previews import Preview, mixing, preview
from runs.access.api.permissions import Readers
from runs.lifecycle.models.runs import Run
from runs.lifecycle.queries.runs import readable_run
from web.http.bodies import answer
from web.http.openapi import problems
from web.http.views import ApiView


def _run_of_groups(name: str) -> Run:
    run = readable_run(name)
    if not run.takes_groups:
        raise WrongKind(f"{name} serves fragments; only trajectory groups are mixed by environment")
    return run


class MixingView(ApiView):
    """The mixing of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="mixing_get",
        responses={200: messages.MixingAnswer, **problems(409)},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the environment mix.

        Target share, realized share and debt of each environment.
        """
        found = _run_of_groups(run)
        return answer(
            messages.MixingAnswer(
                batch_size=found.batch_size,
                dry_deadline_seconds=found.dry_deadline_seconds,
                environments=mixing(found.pk),
            )
        )


class PreviewView(ApiView):
    """Preview of a run's next batch."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="batches_preview",
        responses={200: messages.PreviewAnswer, **problems(409)},
        tags=["batches"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Preview the next batch.

        Its composition, or the reason why none is ready. Leases nothing.
        """
        found = _run_of_groups(run)
        return answer(preview_answer(found, preview(found)))


def preview_answer(run: Run, seen: Preview) -> messages.PreviewAnswer:
    """Return a preview as its API schema."""
    fields: dict[str, Any] = asdict(seen) | asdict(seen.groups)
    del fields["groups"]
    fields["reason"] = seen.reason or None
    fields["retried_batch"] = str(seen.retried_batch) if seen.retried_batch else None
    return messages.PreviewAnswer(batch_size=run.batch_size, padding=seen.groups.padding, **fields)
