"""The outcome of a group in words."""

from dataclasses import replace
from typing import Any

import pytest

from buffer.inspect.rules.outcome import BatchFacts, GroupFacts, outcome
from buffer.items.rules.states import DROP_CAUSES, BatchState, DropReason, ItemState
from runs.lifecycle.rules import PolicyVersion

BATCH = BatchFacts(step=12, state=BatchState.LEASED, trainer="t0", lease_expiries=0, staleness=None)
GROUP = GroupFacts(
    state=ItemState.QUEUED,
    drop_reason=None,
    has_bytes=True,
    sequences=8,
    version=PolicyVersion(1, 3),
    has_equal_scores=False,
    has_gradient=True,
    batch=None,
    max_staleness=2,
    current=PolicyVersion(1, 9),
)


def dropped(reason: DropReason, **changes: Any) -> GroupFacts:
    return replace(GROUP, state=ItemState.DROPPED, drop_reason=reason, **changes)


def held(state: ItemState, /, **changes: Any) -> GroupFacts:
    return replace(GROUP, state=state, batch=replace(BATCH, **changes))


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (GROUP, "Queued: no trainer has leased it yet."),
        (
            replace(GROUP, state=ItemState.WAITING),
            "Waiting for other groups of its environment that complete it.",
        ),
        (held(ItemState.LEASED), "Leased to t0 in batch 12, not acknowledged yet."),
        (held(ItemState.LEASED, trainer=""), "Leased in batch 12, not acknowledged yet."),
        (
            held(ItemState.LEASED, state=BatchState.RETURNED),
            "In batch 12, whose lease ended: it waits for the next trainer.",
        ),
        (
            held(ItemState.QUARANTINED, state=BatchState.QUARANTINED, lease_expiries=3),
            "Quarantined in batch 12 after 3 leases: release or discard the batch.",
        ),
        (
            held(ItemState.SERVED, state=BatchState.CONFIRMED, staleness=1),
            "Trained on in batch 12 by t0, 1 policy version behind.",
        ),
        (
            held(ItemState.SERVED, state=BatchState.CONFIRMED, step=1200, staleness=0),
            "Trained on in batch 1,200 by t0, 0 policy versions behind.",
        ),
        (replace(GROUP, state=ItemState.SERVED), "Trained on."),
        (
            dropped(DropReason.STALE_VERSION),
            (
                "Dropped: more policy versions behind than max_staleness allows. "
                "Policy 1.3 sampled it; the run is now at 1.9, the limit is 2."
            ),
        ),
        (
            dropped(DropReason.STALE_VERSION, version=None),
            "Dropped: more policy versions behind than max_staleness allows.",
        ),
        (
            dropped(DropReason.FUTURE, has_bytes=False, has_gradient=None),
            "Dropped on arrival: of a policy version that is later than the run's.",
        ),
        (
            dropped(DropReason.POISON, batch=BATCH),
            "Dropped: an operator discarded its quarantined batch (batch 12).",
        ),
        (
            dropped(DropReason.ZERO_VARIANCE, has_equal_scores=True, has_gradient=False),
            "Dropped: with equal scores, so without a gradient.",
        ),
        (
            replace(GROUP, has_equal_scores=True, has_gradient=False),
            (
                "Queued: no trainer has leased it yet. "
                "All 8 scores are equal: its advantages are 0, and it gives no gradient."
            ),
        ),
        (
            replace(GROUP, has_gradient=False),
            "Queued: no trainer has leased it yet. Its advantages are 0, and it gives no gradient.",
        ),
        (
            replace(GROUP, has_equal_scores=True),
            "Queued: no trainer has leased it yet.",
        ),
    ],
)
def test_a_group_has_its_outcome_in_words(group: GroupFacts, words: str) -> None:
    assert outcome(group) == words


def test_each_drop_reason_has_a_cause() -> None:
    assert set(DROP_CAUSES) == set(DropReason)
