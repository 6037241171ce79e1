"""Amount of data that a run has processed, used as a chart axis."""

from buffer.batches.queries.batches import served_tokens_after
from rollouts.control.models.fleets import Fleet
from rollouts.metrics.models.metrics import TokenTally
from runs.lifecycle.models.runs import Run


def advance_amount(run_id: int) -> int:
    """Return the number of served tokens of a run; for a fleet run, its env steps.

    Tokens are tallied: only batches since the last call are added. The tally stays locked until the
    caller's transaction ends.
    """
    run = Run.objects.only("kind").get(pk=run_id)
    if not run.takes_groups:
        made = Fleet.objects.filter(run_id=run_id).values_list("env_steps_total", flat=True)
        return made.first() or 0
    TokenTally.objects.bulk_create([TokenTally(run_id=run_id)], ignore_conflicts=True)
    tally = TokenTally.objects.select_for_update().get(run_id=run_id)
    later = served_tokens_after(run_id, after_ordinal=tally.ordinal)
    if later.ordinal > tally.ordinal:
        tally.ordinal, tally.tokens = later.ordinal, tally.tokens + later.tokens
        tally.save(update_fields=["ordinal", "tokens"])
    return tally.tokens
