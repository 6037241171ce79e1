"""Audits of a run's ledger, and ledgers by environment."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from buffer.items.models.items import LedgerAudit
from buffer.items.queries.counts import CountRow, counts, sequences_ledger
from buffer.items.rules.ledger import ACCEPTED, Ledger, balance, discrepancies
from buffer.items.rules.states import ItemKind
from runs.lifecycle.models.runs import Run
from web.sql import statements_of

SQL: Final = statements_of("buffer")

AUDIT_EVERY: Final = timedelta(seconds=30)
# Maximum fraction of time spent on counting the rows of a run, which may take long.
AUDIT_SHARE: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentLedger:
    """Ledger of one environment."""

    kind: ItemKind
    env_id: int | None
    """None for groups without an environment, and for fragments."""
    environment: str
    """Name of the environment, for fragments."""
    ledger: Ledger
    sequences: Ledger
    """The same in sequences; a fragment counts as one."""


def ledgers_by_environment(run_id: int) -> list[EnvironmentLedger]:
    """Return the ledger of each environment of a run, from the counts."""
    found = []
    for kind in ItemKind:
        places: dict[tuple[int, str], list[CountRow]] = defaultdict(list)
        for row in counts(run_id, kind):
            places[row.env_id, row.environment].append(row)
        found += [
            EnvironmentLedger(
                kind=kind,
                env_id=None if env_id < 0 else env_id,
                environment=environment,
                ledger=balance((row.state, row.reason, row.items) for row in rows),
                sequences=sequences_ledger(rows),
            )
            for (env_id, environment), rows in sorted(places.items())
        ]
    return found


def ledger_problems(run_id: int) -> list[str]:
    """Return mismatches between a run's counts and rows; empty if there are none."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["both_ledgers"], {"run": run_id})
        found = cursor.fetchall()
    problems = []
    for kind in ItemKind:
        counted, rows = (
            [(row[2], row[3], int(row[4])) for row in found if row[:2] == (source, kind)]
            for source in ("counts", "rows")
        )
        rows.append((ACCEPTED, "", sum(items for _, _, items in rows)))
        wrong = discrepancies(counted=balance(counted), found=balance(rows))
        problems += [f"{kind}: {problem}" for problem in wrong]
    return problems


def audits_due(*, now: datetime) -> list[tuple[int, str]]:
    """Return (run id, fingerprint of its counts) of runs to audit, least recently audited first.

    A run is due if its counts have changed since its last audit and enough time has passed,
    relative to the cost of an audit.
    """
    limits: dict[str, Any] = {
        "every": AUDIT_EVERY.total_seconds(),
        "share": AUDIT_SHARE,
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(SQL["audits_due"], limits)
        return list(cursor.fetchall())


def last_audit(run: Run) -> LedgerAudit | None:
    """Return the last audit of a run's ledger, or None before the first."""
    return LedgerAudit.objects.filter(run=run).first()
