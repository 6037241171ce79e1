"""Remaining admission of a run, from one sum over its counts."""

from dataclasses import dataclass
from typing import Any, Final

from buffer.items.rules.states import OPEN, ItemKind
from runs.lifecycle.models.runs import Run, RunKind
from runs.lifecycle.rules.versions import (
    NO_POLICY_STEP,
    admission_capacity,
    batches_ahead,
    trained_steps,
)
from web import database
from web.rows import first_row
from web.sql import statements_of

SQL: Final = statements_of("buffer")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAmounts:
    """Items that a run holds, of the kind that it accepts."""

    open_items: int
    """Items neither served nor dropped, of all epochs."""
    open_bytes: int
    """Bytes of the open items of both kinds."""
    queued_items: int
    """Queued items of the run's epoch."""
    admitted: int
    """Sequences or fragments accepted and not dropped, of the epochs that share versions."""
    trained: int
    """Train steps, as counted by the run's policy versions."""


def kind_of(run: Run) -> ItemKind:
    """Return the kind of items that a run accepts."""
    return ItemKind.GROUPS if run.takes_groups else ItemKind.FRAGMENTS


def stored_amounts(run: Run) -> StoredAmounts:
    """Return the stored amounts of a run, with one query."""
    parameters: dict[str, Any] = {
        "run": run.pk,
        "kind": str(kind_of(run)),
        "open": [str(state) for state in OPEN],
        "epoch": run.epoch,
        # If batches count as versions, all epochs share them.
        "any_epoch": run.kind == RunKind.OUTSIDE and run.policy_step <= NO_POLICY_STEP,
        "policy_step": run.policy_step,
    }
    with database.cursor() as cursor:
        row = cursor.execute(SQL["stored_amounts"], parameters, prepare=True).fetchone()
    assert row is not None  # noqa: S101 a sum has a row
    open_items, open_bytes, queued_items, admitted, first_step = row
    return StoredAmounts(
        open_items=open_items,
        open_bytes=open_bytes,
        queued_items=queued_items,
        admitted=admitted,
        trained=_trained(run, first_step=first_step),
    )


def _trained(run: Run, *, first_step: int | None) -> int:
    if run.policy_step <= NO_POLICY_STEP:
        return run.served_steps if run.kind == RunKind.OUTSIDE else 0
    if run.policy_step <= 0:
        return 0
    return trained_steps(policy_step=run.policy_step, first_step=first_step or 0)


def admission(run: Run, *, admitted: int, trained: int) -> int:
    """Return how many more items a run accepts; for the arguments see :class:`StoredAmounts`."""
    if run.batch_size is None:
        return 0
    return admission_capacity(
        batches_ahead=batches_ahead(
            max_staleness=run.max_staleness, off_policy_tolerance=run.off_policy_tolerance
        ),
        trained=trained,
        per_batch=run.batch_size,
        accepted=admitted,
        running=0,
    )


def admission_remaining(run_id: int) -> int:
    """Return how many more items may arrive without becoming too stale.

    Counts sequences for external runs, fragments for fleets. Items already started are not
    subtracted, because a fleet knows their current number better than its last report says.
    Dropped items are never trained on, so they take no room.

    Raises:
        Run.DoesNotExist: If the run no longer exists.
    """
    run = first_row(Run, "id = %s", [run_id])
    if run is None:
        raise Run.DoesNotExist(f"run {run_id} does not exist")
    held = stored_amounts(run)
    return admission(run, admitted=held.admitted, trained=held.trained)
