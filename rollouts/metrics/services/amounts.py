"""Say how much data a run has come through, which is an axis of its charts."""

from buffer.batches.queries.tokens import tokens_handed_out
from rollouts.control.models.fleets import Fleet
from rollouts.metrics.models.metrics import TokenTally
from runs.models import Run


def advance_amount(run_id: int) -> int:
    """Return how many tokens a run has handed out; of a fleet run, the env steps it made.

    Tokens are tallied: only batches since the last time are added up. The caller's transaction
    holds the tally until it ends.
    """
    run = Run.objects.only("kind").get(pk=run_id)
    if not run.takes_groups:
        made = Fleet.objects.filter(run_id=run_id).values_list("env_steps_total", flat=True)
        return made.first() or 0
    TokenTally.objects.bulk_create([TokenTally(run_id=run_id)], ignore_conflicts=True)
    tally = TokenTally.objects.select_for_update().get(run_id=run_id)
    later = tokens_handed_out(run_id, after_ordinal=tally.ordinal)
    if later.ordinal > tally.ordinal:
        tally.ordinal, tally.tokens = later.ordinal, tally.tokens + later.tokens
        tally.save(update_fields=["ordinal", "tokens"])
    return tally.tokens
