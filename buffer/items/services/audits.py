"""Audits of ledgers, which report lost or double-counted items."""

import time
from datetime import datetime
from typing import Final

from django.db import transaction

from buffer.items.models.items import LedgerAudit
from buffer.items.queries.ledgers import audits_due, ledger_problems
from runs.events.services import record_event
from runs.lifecycle.models.runs import Run
from web.live.announcements import announce

RUNS_AT_ONCE: Final = 50


def audit_ledgers(*, now: datetime) -> int:
    """Audit the ledgers of runs that are due; return the number with mismatches."""
    due = audits_due(now=now)[:RUNS_AT_ONCE]
    return sum(audit_ledger(run_id=run_id, counts_md5=md5, now=now) for run_id, md5 in due)


def audit_ledger(*, run_id: int, counts_md5: str, now: datetime) -> bool:
    """Compare a run's counts with its rows; return whether they differ.

    Only a change between balanced and unbalanced records an event.
    """
    began = time.monotonic()
    problem = "; ".join(ledger_problems(run_id))
    took = time.monotonic() - began
    with transaction.atomic():
        LedgerAudit.objects.update_or_create(
            run_id=run_id,
            defaults={"audited_at": now, "took_seconds": took, "counts_md5": counts_md5},
        )
        _report_problem(run_id, problem, now=now)
    return bool(problem)


def _report_problem(run_id: int, problem: str, *, now: datetime) -> None:
    run = Run.objects.select_for_update(no_key=True).get(pk=run_id)
    if run.ledger_problem == problem:
        return
    Run.objects.filter(pk=run_id).update(ledger_problem=problem)
    announce(run_id, "run", "ledger")
    if bool(run.ledger_problem) is bool(problem):
        return
    record_event(
        run_id=run_id,
        kind="ledger_unbalanced" if problem else "ledger_balanced",
        level="error" if problem else "info",
        message=f"the ledger does not balance: {problem}"
        if problem
        else "the ledger balances again",
        actor="buffer",
        now=now,
    )
