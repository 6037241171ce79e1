"""The run and the requesting trainer of a lease, read with one query."""

from dataclasses import dataclass
from typing import Any, Final

from buffer.batches.rules.lease_errors import TrainerNotRegistered
from buffer.payloads.services.expiry import HAS_STALE_FRAGMENTS
from runs.lifecycle.models.runs import Run, Trainer
from web.rows import first_row, row_of

_TRAINER: Final = "FROM runs_trainer t WHERE t.run_id = runs_run.id AND t.identity = %s"
_COMPUTED: Final = {
    "asking_id": f"(SELECT t.id {_TRAINER})",
    "asking_seen_at": f"(SELECT t.last_seen_at {_TRAINER})",
    "asking_registered_at": f"(SELECT t.registered_at {_TRAINER})",
    "asking_is_stock": f"(SELECT t.is_stock {_TRAINER})",
    "has_open_batches": f"""EXISTS (
        -- The same condition as in the index `batch_open`.
        SELECT FROM buffer_batch b WHERE b.run_id = runs_run.id
        AND b.state IN ('leased', 'returned')
        AND (b.state = 'returned' OR b.trainer_id = (SELECT t.id {_TRAINER}))
    )""",
    "has_stale_fragments": HAS_STALE_FRAGMENTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseContext:
    """A run and the trainer that requests a batch of it."""

    run: Run
    trainer: Trainer
    has_open_batches: bool
    """Whether a batch is returned, or leased to the trainer."""
    has_stale_fragments: bool
    """Whether fragments are too old for the run by their version or epoch."""


def lease_context(run_id: int, identity: str) -> LeaseContext:
    """Return the context of a request.

    Raises:
        TrainerNotRegistered: If no trainer of the run has this identity.
    """
    parameters = [identity] * sum(text.count("%s") for text in _COMPUTED.values())
    run = first_row(Run, "id = %s", [*parameters, run_id], computed=_COMPUTED)
    if run is None:
        raise Run.DoesNotExist(f"run {run_id} does not exist")
    found: dict[str, Any] = {name: run.__dict__.pop(name) for name in _COMPUTED}
    if found["asking_id"] is None:
        raise TrainerNotRegistered(f"{identity} is not a trainer of {run.name}: register first")
    columns = {
        "id": found["asking_id"],
        "run_id": run_id,
        "identity": identity,
        "last_seen_at": found["asking_seen_at"],
        "registered_at": found["asking_registered_at"],
        "is_stock": found["asking_is_stock"],
    }
    return LeaseContext(
        run=run,
        trainer=row_of(Trainer, columns),
        has_open_batches=found["has_open_batches"],
        has_stale_fragments=found["has_stale_fragments"],
    )
