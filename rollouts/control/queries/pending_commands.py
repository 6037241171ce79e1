"""Queries for operator requests to a fleet, sent with its manager's commands."""

from datetime import timedelta
from typing import Final

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from rolldeck import operator_requests
from rollouts.control.models import FleetWorker, LogRequest, Recording

LOG_REQUEST_LIFETIME: Final = timedelta(seconds=15)
"""Age at which a request for a log or stacks is abandoned."""
LOGS_AT_ONCE: Final = 64


def pending_logs(run_id: int) -> list[operator_requests.LogRequest]:
    """Return the unanswered log requests of the last seconds."""
    found = _unanswered(run_id, "log").values_list("request", "worker", "slot", "lines")
    return [
        operator_requests.LogRequest(id=str(request), worker=worker, slot=slot, lines=lines)
        for request, worker, slot, lines in found[:LOGS_AT_ONCE]
    ]


def pending_stacks(run_id: int) -> list[operator_requests.StacksRequest]:
    """Return the unanswered requests for stacks of the last seconds."""
    found = _unanswered(run_id, "stacks").values_list("request", "worker", "incarnation")
    return [
        operator_requests.StacksRequest(id=str(request), worker=worker, incarnation=incarnation)
        for request, worker, incarnation in found[:LOGS_AT_ONCE]
        if worker is not None
    ]


def _unanswered(run_id: int, kind: str) -> QuerySet[LogRequest]:
    pending = LogRequest.objects.filter(
        Q(answered_at=None) | Q(answered_at__lt=F("asked_at")),
        run_id=run_id,
        kind=kind,
        asked_at__gt=Now() - LOG_REQUEST_LIFETIME,
    )
    return pending.order_by("pk")


def pending_restarts(run_id: int) -> list[operator_requests.RestartCommand]:
    """Return the workers to replace, without those already replaced."""
    pending = FleetWorker.objects.filter(fleet__run_id=run_id, restart_of=F("incarnation"))
    rows = pending.order_by("index").values_list("index", "incarnation", "restart_reason")
    return [
        operator_requests.RestartCommand(worker=index, incarnation=incarnation, reason=reason)
        for index, incarnation, reason in rows
    ]


def pending_cordons(run_id: int) -> list[operator_requests.CordonCommand]:
    """Return the cordoned workers."""
    cordoned = FleetWorker.objects.filter(fleet__run_id=run_id).exclude(cordoned_at=None)
    rows = cordoned.order_by("index").values_list("index", "cordon_reason")
    return [operator_requests.CordonCommand(worker=index, reason=reason) for index, reason in rows]


def pending_recordings(run_id: int) -> list[operator_requests.RecordingCommand]:
    """Return the requested recordings, including those in progress."""
    found = Recording.objects.filter(run_id=run_id, state__in=["requested", "recording"])
    rows = found.order_by("requested_at", "pk").values_list("pk", "wanted_worker", "wanted_slot")
    return [
        operator_requests.RecordingCommand(id=str(pk), worker=worker, slot=slot)
        for pk, worker, slot in rows
    ]
