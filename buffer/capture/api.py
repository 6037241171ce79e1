"""API views of captured sessions, their calls and their scores."""

from datetime import datetime

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from msgspec import Struct
from rest_framework.request import Request

from buffer.capture import queries as captures
from buffer.capture.models import CaptureSession
from buffer.capture.rules import CapturedRow
from buffer.capture.services import assembled, capture_call, score_sessions
from buffer.ingest.api import CountsRefusals
from rolldeck.captures import CallPush, CallReceipt, ScoreReceipt, ScoreSessions
from runs.access.api.identity import identity_of
from runs.access.api.permissions import Readers, scoped
from runs.lifecycle.queries import readable_run, run_named
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView
from web.rules.pages import Page


class CaptureRow(Struct, frozen=True, kw_only=True):
    """A captured session."""

    name: str
    state: str
    """``open``, ``scored`` or ``expired``."""
    calls: int
    size_bytes: int
    score: float | None
    created_at: datetime
    changed_at: datetime


class Captures(Page[CaptureRow], frozen=True, kw_only=True):
    """Captured sessions, most recently changed first."""


class CaptureDetail(CaptureRow, frozen=True, kw_only=True):
    """A captured session with its sequences, as long as its calls are kept."""

    sequences: list[CapturedRow]
    gaps: list[str]
    """Parts that could not be captured."""
    repairs: int
    """Number of calls that continue a sequence because of a repaired tokenization."""


def _fields(session: CaptureSession) -> dict[str, object]:
    return {name: getattr(session, name) for name in CaptureRow.__struct_fields__}


class CapturesView(ApiView):
    """The captured sessions of a run."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="captures_list",
        parameters=page_parameters(default=200, most=500),
        responses={200: Captures},
        tags=["captures"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List captured sessions.

        Most recently changed first.
        """
        page = page_of(request, tuple[datetime, int], default=200, most=500)
        found = captures.captures(readable_run(run).pk, after=page.after, limit=page.limit + 1)
        sessions, cursor = page.cut(found, lambda one: (one.changed_at, one.pk))
        rows = [CaptureRow(**_fields(one)) for one in sessions]  # type: ignore[arg-type]
        return answer(Captures(results=rows, next=cursor))


class CaptureView(ApiView):
    """One captured session."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="captures_get",
        responses={200: CaptureDetail},
        tags=["captures"],
    )
    def get(self, request: Request, run: str, session: str) -> HttpResponse:
        """Get a captured session.

        With the sequences that its calls form.
        """
        found = captures.capture_named(readable_run(run).pk, session)
        made = assembled(found)
        return answer(
            CaptureDetail(
                **_fields(found),  # type: ignore[arg-type]
                sequences=made.sequences,
                gaps=made.gaps,
                repairs=made.repairs,
            )
        )


class CapturedCallsView(CountsRefusals):
    """The calls of a session."""

    permission_classes = [scoped("env", "worker")]

    @extend_schema(
        operation_id="captures_create_call",
        request=CallPush,
        responses={200: CallReceipt, **problems(409, 413, 422, 507)},
        tags=["captures"],
    )
    def post(self, request: Request, run: str, session: str) -> HttpResponse:
        """Add a call to a captured session.

        The first call creates the session.
        """
        call = read(request, CallPush)
        number, is_new = capture_call(
            run=run_named(run), session=session, call=call, now=timezone.now()
        )
        return answer(CallReceipt(number=number, is_new=is_new))


class ScoresView(CountsRefusals):
    """Scores of captured sessions."""

    permission_classes = [scoped("env", "worker")]

    @extend_schema(
        operation_id="captures_score",
        request=ScoreSessions,
        responses={200: ScoreReceipt, **problems(409, 422, 429, 507)},
        tags=["captures"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Score captured sessions.

        Makes one trajectory group of the sessions; repeating the same scores changes
        nothing.
        """
        body = read(request, ScoreSessions)
        receipt = score_sessions(
            run=run_named(run),
            scores=body.scores,
            env_id=body.env_id,
            producer=identity_of(request),
            now=timezone.now(),
        )
        return answer(receipt)
