"""Map exceptions to problem-details responses, with one table of codes."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from rest_framework import exceptions
from rest_framework.views import set_rollback

from buffer.archive.queries.parquet import ArchiveUnavailable, ArchiveUnreadable
from buffer.archive.rules import InvalidWindow
from buffer.archive.services.archive_jobs import ArchiveNotFound, ArchiveNotReady, TooManyArchives
from buffer.archive.services.restore import WrongRunForArchive
from buffer.batches.api.batches import NoBatchSize, WrongKind
from buffer.batches.rules.shards import RankOutsideWorld
from buffer.batches.services.lease_expiry import NotQuarantined
from buffer.batches.services.leases import BatchNotFound, LeaseLost, TrainerNotRegistered
from buffer.capture.queries import CaptureNotFound
from buffer.capture.services import InvalidCapture, NothingCaptured, SessionFull, SessionOver
from buffer.followers.queries import FollowerNotFound
from buffer.followers.rules import InvalidCursor
from buffer.followers.services import CursorBehind, FollowerExists
from buffer.ingest.schemas.groups_msgpack import InvalidGroups
from buffer.ingest.services.backpressure import DiskFull, QueueFull
from buffer.ingest.services.fragments import InvalidFragments
from buffer.ingest.services.groups import RunNotAccepting
from buffer.ingest.services.idempotency import InvalidKey, KeyInFlight, KeyReused
from buffer.inspect.queries.fragment_lists import FragmentNotFound
from buffer.inspect.queries.group_contents import GroupUnreadable
from buffer.inspect.queries.group_lists import GroupNotFound, SearchTooSlow
from buffer.inspect.queries.marks import SetNotFound
from buffer.inspect.rules.fragment_views import FragmentUnreadable, NoSuchStep
from buffer.inspect.rules.group_filter import InvalidFilter
from buffer.inspect.rules.marks import InvalidMark
from buffer.inspect.rules.sequence_views import NoSuchSequence
from buffer.inspect.services.group_sets import SetFull
from buffer.payloads.services.contents import PayloadExpired, PayloadMissing
from buffer.payloads.services.objects import PayloadStorageDown
from config.decompression import BodyBroken, BodyTooLarge, UnknownEncoding
from rollouts.control.queries.recordings import NoFilm
from rollouts.control.services.logs import LogNotAsked, NoSuchLog
from rollouts.control.services.machine_cordons import InvalidMachineCordon, MachineUnknown
from rollouts.control.services.recordings import (
    InvalidRecording,
    RecordingNotFound,
    TooManyRecordings,
)
from rollouts.control.services.worker_placement import WorkerNotFound, WorkerNotThere
from rollouts.curriculum.queries.curricula import NoCurriculum
from rollouts.curriculum.queries.lessons import NoSuchEvaluation
from rollouts.curriculum.rules.lessons import InvalidCurriculum
from rollouts.curriculum.services.evaluation_requests import NothingToEvaluate
from rollouts.curriculum.services.evaluations import (
    EvaluationLeaseLost,
    EvaluationNotFound,
    LessonNotFound,
)
from rollouts.curriculum.services.lesson_outcomes import InvalidOutcome
from rollouts.curriculum.services.lesson_steering import LastLesson
from rollouts.environments.queries import EnvironmentUnknown
from rollouts.environments.services import check_results
from rollouts.environments.services.probes import TooManyTrials
from rollouts.episodes.queries.episode_fragments import ReportNotFound
from rollouts.fleet.manager.reports import InvalidReport, StaleIncarnation
from rollouts.metrics.queries.annotations import AnnotationNotFound
from rollouts.metrics.queries.metrics import NoSuchMetric
from rollouts.metrics.rules.comparisons import TooManyComparisons
from rollouts.metrics.rules.layouts import LayoutExists, TooManyLayouts
from rollouts.metrics.services import annotations
from rollouts.metrics.services.metrics import InvalidMetrics
from runs.access.api.sessions import LoginFailed
from runs.access.rules import networks
from runs.access.services import login_attempts, sessions, tokens
from runs.alerts.queries.alert_rules import RuleNotFound
from runs.alerts.queries.alerts import AlertNotFound
from runs.alerts.queries.silences import SilenceNotFound
from runs.alerts.rules.alert_rules import InvalidRule
from runs.alerts.rules.silences import InvalidSilence
from runs.alerts.rules.webhooks import SAMPLE_AGAIN_AFTER
from runs.alerts.services import alert_rules, alerts, webhooks
from runs.config.rules.preset_rules import PresetExists
from runs.config.rules.run_config import InvalidRunConfig
from runs.config.services import presets
from runs.lifecycle.queries.notes import NoteNotFound
from runs.lifecycle.queries.runs import NoWeights, RunArchived, RunNotFound
from runs.lifecycle.rules.lifecycle import MoveNotAllowed
from runs.lifecycle.rules.tags import InvalidTag
from runs.lifecycle.services import environment_settings, lifecycle, notes, registry, run_settings
from runs.saved.rules import InvalidSavedObject, NotAllowedToChange, SavedObjectNotFound
from runs.search.queries.run_table import UnknownSort
from runs.search.rules import filter_parsing
from runs.weights.services import weights as run_weights
from runs.weights.services import weights_commands
from web import outages
from web.http.bodies import InvalidBody
from web.http.problems import FieldProblem, Problem
from web.rules.page_cursor import InvalidPlace

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApiError:
    """The HTTP response to one kind of exception.

    `inside` is the request field that contains the exception's `field` path.
    """

    status: int
    code: str
    title: str
    inside: str = ""
    retry_after_seconds: int | None = None


NOT_FOUND: Final = ApiError(404, "not_found", "Not found")
OUTAGE: Final = ApiError(
    503, "unavailable", "Service unavailable", retry_after_seconds=outages.RETRY_AFTER_SECONDS
)
# The most specific class of an exception wins. Each public exception of the apps has a row here.
ERRORS: Final[dict[type[Exception], ApiError]] = {
    # Exceptions of the frameworks.
    exceptions.NotAuthenticated: ApiError(401, "not_authenticated", "Not signed in"),
    exceptions.AuthenticationFailed: ApiError(401, "not_authenticated", "Not signed in"),
    exceptions.PermissionDenied: ApiError(403, "forbidden", "Not allowed"),
    PermissionDenied: ApiError(403, "forbidden", "Not allowed"),
    exceptions.NotFound: ApiError(404, "not_found", "Not found"),
    Http404: NOT_FOUND,
    exceptions.MethodNotAllowed: ApiError(405, "method_not_allowed", "Method not allowed"),
    exceptions.NotAcceptable: ApiError(406, "not_acceptable", "No such representation"),
    exceptions.UnsupportedMediaType: ApiError(415, "unsupported_media_type", "Unknown media type"),
    exceptions.Throttled: ApiError(429, "too_many_requests", "Too many requests"),
    exceptions.ValidationError: ApiError(400, "invalid", "Invalid request"),
    exceptions.ParseError: ApiError(400, "invalid", "Invalid request"),
    # Compressed bodies.
    BodyBroken: ApiError(400, "invalid", "Body cannot be decompressed"),
    BodyTooLarge: ApiError(413, "too_large", "Body too large"),
    UnknownEncoding: ApiError(415, "unknown_encoding", "Unknown encoding"),
    # Runs.
    InvalidBody: ApiError(400, "invalid", "Invalid request"),
    RankOutsideWorld: ApiError(400, "invalid", "Invalid request"),
    filter_parsing.InvalidFilter: ApiError(400, "invalid", "Invalid request"),
    InvalidPlace: ApiError(400, "invalid", "Invalid request"),
    UnknownSort: ApiError(400, "invalid", "Invalid request"),
    InvalidTag: ApiError(400, "invalid", "Invalid request"),
    InvalidRunConfig: ApiError(400, "invalid", "Invalid configuration", inside="config"),
    lifecycle.InvalidRunName: ApiError(400, "invalid", "Invalid request"),
    lifecycle.UnknownPreset: ApiError(400, "invalid", "Invalid request"),
    lifecycle.UnexpectedConfig: ApiError(400, "invalid", "Invalid request"),
    presets.InvalidAccess: ApiError(400, "invalid", "Invalid request"),
    InvalidSavedObject: ApiError(400, "invalid", "Invalid request"),
    NotAllowedToChange: ApiError(403, "forbidden", "Not allowed"),
    SavedObjectNotFound: ApiError(404, "not_found", "Not found"),
    PresetExists: ApiError(409, "preset_exists", "Name taken"),
    presets.PresetChanged: ApiError(409, "preset_changed", "Changed by another request"),
    NoteNotFound: ApiError(404, "not_found", "Not found"),
    notes.NotesChanged: ApiError(409, "notes_changed", "Edited by another request"),
    tokens.UnknownScope: ApiError(400, "invalid", "Invalid request"),
    networks.InvalidNetwork: ApiError(400, "invalid", "Invalid request"),
    tokens.TokenTooShort: ApiError(400, "invalid", "Invalid request"),
    LoginFailed: ApiError(403, "login_failed", "Sign-in failed"),
    login_attempts.TooManyLogins: ApiError(
        429, "too_many_requests", "Too many attempts to sign in"
    ),
    RunNotFound: ApiError(404, "not_found", "Not found"),
    RunArchived: ApiError(409, "run_archived", "The run is archived"),
    InvalidRule: ApiError(400, "invalid", "Invalid request"),
    InvalidSilence: ApiError(400, "invalid", "Invalid request"),
    RuleNotFound: ApiError(404, "not_found", "Not found"),
    SilenceNotFound: ApiError(404, "not_found", "Not found"),
    alert_rules.TooManyRules: ApiError(409, "too_many_rules", "No room for another rule"),
    AlertNotFound: ApiError(404, "not_found", "Not found"),
    alerts.AlertResolved: ApiError(409, "alert_resolved", "The alert is over"),
    webhooks.WebhookNotFound: ApiError(404, "not_found", "Not found"),
    webhooks.SampleSentJustNow: ApiError(
        429,
        "too_many_requests",
        "A sample was sent just now",
        retry_after_seconds=int(SAMPLE_AGAIN_AFTER.total_seconds()),
    ),
    environment_settings.EnvironmentNotFound: ApiError(404, "not_found", "Not found"),
    NoWeights: ApiError(404, "no_weights", "No such weights"),
    sessions.SessionNotFound: ApiError(404, "not_found", "Not found"),
    tokens.TokenNotFound: ApiError(404, "not_found", "Not found"),
    lifecycle.RunExists: ApiError(409, "run_exists", "Name taken"),
    MoveNotAllowed: ApiError(409, "move_not_allowed", "Not possible in this state"),
    run_settings.BatchSizeConfigured: ApiError(
        409, "batch_size_configured", "The batch size is part of the configuration"
    ),
    run_settings.NoFleet: ApiError(409, "no_fleet", "The run has no fleet"),
    registry.RunIsOver: ApiError(409, "run_over", "The run is over"),
    run_weights.StaleEpoch: ApiError(409, "stale_epoch", "Another trainer session is open"),
    run_weights.VersionNotNewer: ApiError(409, "version_not_newer", "Not a newer version"),
    weights_commands.VersionNotKept: ApiError(409, "version_not_kept", "Its file is gone"),
    weights_commands.CannotGoBack: ApiError(409, "cannot_go_back", "Only later versions"),
    weights_commands.NotPinned: ApiError(409, "not_pinned", "No version is pinned"),
    run_weights.WeightsTooLarge: ApiError(413, "too_large", "Too large"),
    run_weights.ManifestMismatch: ApiError(
        422, "manifest_mismatch", "The file does not match the manifest"
    ),
    # Buffer.
    InvalidKey: ApiError(400, "invalid", "Invalid request"),
    BatchNotFound: ApiError(404, "not_found", "Not found"),
    InvalidFilter: ApiError(400, "invalid", "Invalid request"),
    InvalidMark: ApiError(400, "invalid", "Invalid request"),
    SetNotFound: ApiError(404, "not_found", "Not found"),
    SetFull: ApiError(409, "set_full", "The set is full"),
    GroupNotFound: ApiError(404, "not_found", "Not found"),
    NoSuchSequence: ApiError(404, "not_found", "Not found"),
    FragmentNotFound: ApiError(404, "not_found", "Not found"),
    NoSuchStep: ApiError(404, "not_found", "Not found"),
    FragmentUnreadable: ApiError(422, "invalid_data", "Invalid data"),
    GroupUnreadable: ApiError(422, "invalid_data", "Invalid data"),
    SearchTooSlow: ApiError(503, "search_too_slow", "The search takes too long"),
    InvalidWindow: ApiError(400, "invalid", "Invalid request"),
    ArchiveNotFound: ApiError(404, "not_found", "Not found"),
    ArchiveNotReady: ApiError(409, "archive_not_ready", "No file yet"),
    WrongRunForArchive: ApiError(409, "wrong_kind", "Wrong kind of run"),
    TooManyArchives: ApiError(429, "too_many_requests", "Too many archives wait"),
    ArchiveUnreadable: ApiError(422, "invalid_data", "Invalid data"),
    ArchiveUnavailable: ApiError(501, "archives_unavailable", "Archives are not available"),
    PayloadStorageDown: ApiError(503, "storage_down", "Payload storage unavailable"),
    PayloadExpired: ApiError(410, "payload_expired", "Payload deleted by retention"),
    PayloadMissing: ApiError(410, "payload_missing", "Payload lost"),
    InvalidCursor: ApiError(400, "invalid", "Invalid request"),
    CaptureNotFound: ApiError(404, "not_found", "Not found"),
    FollowerNotFound: ApiError(404, "not_found", "Not found"),
    FollowerExists: ApiError(409, "follower_exists", "Name taken"),
    CursorBehind: ApiError(409, "cursor_behind", "A later position is confirmed"),
    LeaseLost: ApiError(409, "lease_lost", "The lease is lost"),
    NotQuarantined: ApiError(409, "not_quarantined", "Not in quarantine"),
    TrainerNotRegistered: ApiError(409, "trainer_not_registered", "Register first"),
    RunNotAccepting: ApiError(409, "run_not_accepting", "The run accepts no data"),
    NoBatchSize: ApiError(409, "no_batch_size", "The run has no batch size"),
    WrongKind: ApiError(409, "wrong_kind", "Wrong kind of run"),
    KeyInFlight: ApiError(
        409, "in_flight", "The first push is not answered yet", retry_after_seconds=1
    ),
    KeyReused: ApiError(422, "idempotency_conflict", "Key used for another body"),
    InvalidCapture: ApiError(422, "invalid_data", "Invalid data"),
    NothingCaptured: ApiError(409, "nothing_captured", "Nothing was captured"),
    SessionFull: ApiError(413, "session_full", "The session is full"),
    SessionOver: ApiError(409, "session_over", "The session is over"),
    InvalidFragments: ApiError(422, "invalid_data", "Invalid data"),
    InvalidGroups: ApiError(422, "invalid_data", "Invalid data"),
    QueueFull: ApiError(503, "over_quota", "The queue is full"),
    DiskFull: ApiError(507, "disk_full", "The disk is nearly full"),
    # Rollouts.
    InvalidReport: ApiError(400, "invalid", "Invalid request"),
    InvalidRecording: ApiError(400, "invalid", "Invalid request"),
    RecordingNotFound: ApiError(404, "not_found", "Not found"),
    NoFilm: ApiError(404, "not_found", "Not found"),
    ReportNotFound: ApiError(404, "not_found", "Not found"),
    AnnotationNotFound: ApiError(404, "not_found", "Not found"),
    annotations.InvalidAnnotation: ApiError(400, "invalid", "Invalid request"),
    annotations.NotTheAuthor: ApiError(403, "forbidden", "Not allowed"),
    check_results.InvalidVerdict: ApiError(400, "invalid", "Invalid request"),
    TooManyComparisons: ApiError(409, "too_many_comparisons", "No room for another comparison"),
    LayoutExists: ApiError(409, "layout_exists", "Name taken"),
    TooManyLayouts: ApiError(409, "too_many_layouts", "No room for another layout"),
    NoSuchMetric: ApiError(404, "not_found", "Not found"),
    TooManyRecordings: ApiError(
        429, "too_many_requests", "Too many recordings are under way", retry_after_seconds=30
    ),
    MachineUnknown: ApiError(404, "not_found", "Not found"),
    InvalidMachineCordon: ApiError(400, "invalid", "Invalid request"),
    WorkerNotFound: ApiError(404, "not_found", "Not found"),
    WorkerNotThere: ApiError(409, "worker_not_there", "The worker was replaced"),
    NoSuchLog: ApiError(404, "not_found", "Not found"),
    LogNotAsked: ApiError(404, "not_found", "Not found"),
    InvalidMetrics: ApiError(400, "invalid", "Invalid request"),
    InvalidOutcome: ApiError(400, "invalid", "Invalid request"),
    LessonNotFound: ApiError(404, "not_found", "Not found"),
    EvaluationNotFound: ApiError(404, "not_found", "Not found"),
    EvaluationLeaseLost: ApiError(409, "lease_lost", "The lease is lost"),
    NothingToEvaluate: ApiError(409, "nothing_to_evaluate", "There is nothing to evaluate"),
    EnvironmentUnknown: ApiError(404, "not_found", "Not found"),
    NoSuchEvaluation: ApiError(404, "not_found", "Not found"),
    LastLesson: ApiError(409, "last_lesson", "Last open lesson"),
    NoCurriculum: ApiError(409, "no_curriculum", "The run has no lessons"),
    InvalidCurriculum: ApiError(409, "curriculum_unusable", "The curriculum cannot be used"),
    TooManyTrials: ApiError(
        429, "too_many_requests", "Too many checks are under way", retry_after_seconds=5
    ),
    StaleIncarnation: ApiError(409, "stale_incarnation", "Another manager has taken over"),
}


def handle(exc: Exception, _context: dict[str, Any]) -> HttpResponse | None:
    """Return the response to `exc`, or None for an exception without a row in the table."""
    found = _row(exc)
    if found is None:
        return _unavailable(exc) if outages.is_outage(exc) else None
    set_rollback()
    return respond(found, detail=_detail(exc), errors=list(_fields(exc, found)), exc=exc)


def respond(
    error: ApiError,
    *,
    detail: str,
    errors: list[FieldProblem] | None = None,
    exc: Exception | None = None,
) -> HttpResponse:
    """Return a problem-details response."""
    problem = Problem(
        type="about:blank",
        title=error.title,
        status=error.status,
        code=error.code,
        detail=detail,
        errors=errors or [],
    )
    response = HttpResponse(
        msgspec.json.encode(problem),
        status=error.status,
        content_type="application/problem+json",
    )
    authenticate = getattr(exc, "auth_header", None)
    if authenticate:
        response["WWW-Authenticate"] = authenticate
    wait = getattr(exc, "retry_after_seconds", None) or error.retry_after_seconds
    if wait:
        response["Retry-After"] = str(int(wait))
    return response


def _unavailable(exc: Exception) -> HttpResponse:
    logger.warning("service_unavailable: %s", " ".join(str(exc).split()))
    set_rollback()
    return respond(OUTAGE, detail=outages.DETAIL)


def _row(exc: Exception) -> ApiError | None:
    for kind in type(exc).__mro__:
        if kind in ERRORS:
            return ERRORS[kind]
    if isinstance(exc, exceptions.APIException):
        return ApiError(exc.status_code, str(exc.default_code), "Request failed")
    return None


def _detail(exc: Exception) -> str:
    if isinstance(exc, exceptions.ValidationError):
        return "; ".join(f"{e.field}: {e.message}" for e in _flat(exc.detail))
    if isinstance(exc, exceptions.APIException):
        return str(exc.detail)
    return str(exc)


def _fields(exc: Exception, error: ApiError) -> Iterator[FieldProblem]:
    if isinstance(exc, exceptions.ValidationError):
        yield from _flat(exc.detail)
        return
    field = getattr(exc, "field", None)
    if isinstance(field, str):
        path = ".".join(part for part in (error.inside, field) if part)
        yield FieldProblem(
            field=path,
            message=str(getattr(exc, "message", exc)),
            start=getattr(exc, "start", None),
            end=getattr(exc, "end", None),
        )


def _flat(detail: Any, path: str = "") -> Iterator[FieldProblem]:
    """Yield one problem for each message in the nested detail of a serializer."""
    if isinstance(detail, dict):
        for key, below in detail.items():
            inner = path if key == "non_field_errors" else f"{path}.{key}" if path else str(key)
            yield from _flat(below, inner)
    elif isinstance(detail, list):
        for index, below in enumerate(detail):
            nested = isinstance(below, dict | list)
            yield from _flat(below, f"{path}[{index}]" if nested else path)
    else:
        yield FieldProblem(field=path, message=str(detail))
