"""The plan of a batch against brute force over small queues."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.batches.rules.batch_plan import (
    DEBT_LIMIT_BATCHES,
    BatchPlan,
    Behind,
    EnvironmentQueue,
    NoBatch,
    NoPlan,
    QueuedGroup,
    forecast,
    plan_batch,
    required_sequences,
    target_shares,
)
from buffer.items.rules.states import NO_ENVIRONMENT
from tests.property_budget import examples

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def queue(env_id: int, *sizes: int, first: int = 0, **fields: Any) -> EnvironmentQueue:
    """Return an environment's queue whose groups have ids first, first + 10 and so on."""
    groups = [
        QueuedGroup(first + env_id + 1 + 10 * place, size) for place, size in enumerate(sizes)
    ]
    return EnvironmentQueue(env_id=env_id, window=groups, **fields)


def plan(*queues: EnvironmentQueue, batch_size: int, **fields: Any) -> BatchPlan | NoPlan:
    plain: dict[str, Any] = {"now": NOON, "deadline_seconds": 30.0}
    return plan_batch(queues, batch_size=batch_size, **plain | fields)


@st.composite
def runs(draw: st.DrawFn) -> list[EnvironmentQueue]:
    """Some environments with few groups each, a part of them known by size only."""
    queues = []
    for env_id in range(draw(st.integers(1, 3))):
        sizes = draw(st.lists(st.integers(1, 5), max_size=5))
        shown = draw(st.integers(0, len(sizes)))
        one = queue(
            env_id,
            *sizes[:shown],
            behind=Counter(sizes[shown:]),
            weight=draw(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 3.0])),
            minimum=draw(st.sampled_from([0.0, 0.25, 0.5, 0.9])),
            connected=draw(st.booleans()),
            debt=draw(st.floats(-8, 8)),
        )
        queues.append(one)
    return queues


def sizes_of(one: EnvironmentQueue) -> list[int]:
    return [group.sequences for group in one.window] + list(Counter(one.behind).elements())


def amounts(one: EnvironmentQueue) -> set[int]:
    """Every number of sequences that some of its groups sum to."""
    sizes = sizes_of(one)
    return {sum(some) for n in range(len(sizes) + 1) for some in combinations(sizes, n)}


def exact_mixes(queues: list[EnvironmentQueue], batch_size: int) -> list[tuple[int, ...]]:
    """Every way to share a batch among the environments that sums exactly."""
    return [mix for mix in product(*map(amounts, queues)) if sum(mix) == batch_size]


SMALL = settings(max_examples=examples(300))


@SMALL
@given(queues=runs(), batch_size=st.integers(1, 14))
def test_once_the_deadline_has_passed_a_batch_is_served_exactly_when_one_can_be_filled(
    queues: list[EnvironmentQueue], batch_size: int
) -> None:
    made = plan(*queues, batch_size=batch_size, blocked_since=NOON - timedelta(seconds=30))

    assert isinstance(made, BatchPlan) == bool(exact_mixes(queues, batch_size))


@SMALL
@given(queues=runs(), batch_size=st.integers(1, 14))
def test_a_batch_has_its_size_and_each_group_once(
    queues: list[EnvironmentQueue], batch_size: int
) -> None:
    made = plan(*queues, batch_size=batch_size, deadline_seconds=0.0)

    if isinstance(made, NoPlan):
        return
    assert sum(made.composition.values()) == batch_size
    assert len(set(made.chosen)) == len(made.chosen)
    counts: Counter[int] = Counter()
    for queue in queues:
        sizes = {group.id: group.sequences for group in queue.window}
        counts[queue.env_id] += sum(sizes.get(chosen, 0) for chosen in made.chosen)
    for part in made.behind:
        queue = queues[part.env_id]
        assert part.count <= queue.behind[part.sequences]
        counts[part.env_id] += part.sequences * part.count
    assert +counts == +Counter(made.composition)


@SMALL
@given(queues=runs(), batch_size=st.integers(1, 14))
def test_minimums_are_met_whenever_some_choice_meets_them(
    queues: list[EnvironmentQueue], batch_size: int
) -> None:
    made = plan(*queues, batch_size=batch_size, deadline_seconds=0.0)
    required = required_sequences(queues, batch_size=batch_size)
    wet = {e: least for e, least in required.items() if queues[e].sequences >= least}

    def meets(mix: dict[int, int]) -> bool:
        return all(mix.get(env_id, 0) >= least for env_id, least in wet.items())

    possible = any(meets(dict(enumerate(mix))) for mix in exact_mixes(queues, batch_size))
    if isinstance(made, BatchPlan):
        assert meets(made.composition) == possible


@SMALL
@given(queues=runs(), batch_size=st.integers(1, 14))
def test_a_batch_waits_only_for_a_connected_environment_that_lacks_its_minimum(
    queues: list[EnvironmentQueue], batch_size: int
) -> None:
    made = plan(*queues, batch_size=batch_size, deadline_seconds=None)

    required = required_sequences(queues, batch_size=batch_size)
    dry = {e for e, least in required.items() if queues[e].sequences < least}
    assert all(queues[env_id].connected for env_id in dry)
    if isinstance(made, BatchPlan):
        assert not dry
    elif made.reason is NoBatch.WAITING_FOR_MINIMUM:
        assert set(made.waiting_for) == dry
        assert made.blocked_since == NOON
        assert exact_mixes(queues, batch_size)
    else:
        assert not exact_mixes(queues, batch_size)


@SMALL
@given(queues=runs(), batch_size=st.integers(1, 14))
def test_debts_stay_within_two_batches_and_belong_to_weights(
    queues: list[EnvironmentQueue], batch_size: int
) -> None:
    made = plan(*queues, batch_size=batch_size, deadline_seconds=0.0)

    if isinstance(made, BatchPlan):
        limit = DEBT_LIMIT_BATCHES * batch_size
        assert all(-limit <= debt <= limit for debt in made.debts.values())
        assert all(queues[e].weight > 0 for e, debt in made.debts.items() if debt)


@settings(max_examples=examples(60))
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from([0.5, 1.0, 2.0, 5.0])), min_size=2, max_size=4
    ),
    ones=st.integers(12, 24),
)
def test_shares_converge_to_their_targets_while_every_environment_has_data(
    sizes: list[tuple[int, float]], ones: int
) -> None:
    """Each batch leaves every environment at most two batches from its due."""
    batches = 40
    served: Counter[int] = Counter()
    debts = dict.fromkeys(range(len(sizes)), 0.0)
    for number in range(batches):
        # Groups of one sequence at the end, so that each batch can be filled exactly.
        queues = [
            queue(
                env_id,
                *[size] * (ones // size),
                *[1] * ones,
                first=1000 * number,
                weight=weight,
                debt=debts[env_id],
                behind={size: 1},
            )
            for env_id, (size, weight) in enumerate(sizes)
        ]
        made = plan(*queues, batch_size=ones)
        assert isinstance(made, BatchPlan)
        served.update(made.composition)
        debts = made.debts
    targets = target_shares(queues)
    for env_id, share in targets.items():
        assert abs(served[env_id] - share * ones * batches) <= DEBT_LIMIT_BATCHES * ones


def test_one_environment_alone_is_served_oldest_first() -> None:
    made = plan(queue(0, 2, 2, 2, 2), batch_size=4)

    assert isinstance(made, BatchPlan)
    assert made.chosen == [1, 11]
    assert made.debts == {0: 0.0}


def test_groups_as_large_as_the_batch_still_share_it_over_time() -> None:
    turns: Counter[int] = Counter()
    debts = {0: 0.0, 1: 0.0}
    for number in range(8):
        first = 100 * number
        made = plan(
            queue(0, 4, 4, first=first, weight=3.0, debt=debts[0]),
            queue(1, 4, 4, first=first, weight=1.0, debt=debts[1]),
            batch_size=4,
        )
        assert isinstance(made, BatchPlan)
        turns.update(made.composition.keys())
        debts = made.debts

    assert turns == {0: 6, 1: 2}


def test_debts_hold_no_rounding_errors() -> None:
    debts = dict.fromkeys(range(3), 0.0)
    for number in range(60):
        made = plan(
            *[
                queue(e, *[1] * 8, first=100 * number, weight=w, debt=debts[e])
                for e, w in enumerate((0.1, 0.2, 0.7))
            ],
            batch_size=10,
        )
        assert isinstance(made, BatchPlan)
        debts = made.debts
        assert all(debt == 0.0 or abs(debt) > 1e-6 for debt in debts.values()), debts


def test_the_debt_to_an_empty_environment_is_limited_to_two_batches() -> None:
    debts = {0: 0.0, 1: 0.0, 2: 0.0}
    for _ in range(50):
        made = plan(
            *[queue(e, *[1] * 8, debt=debts[e]) for e in (0, 1)],
            queue(2, connected=True, debt=debts[2]),
            batch_size=4,
        )
        assert isinstance(made, BatchPlan)
        debts = made.debts
    assert debts == {0: 0.0, 1: 0.0, 2: 8.0}

    taken = []
    for _ in range(4):
        made = plan(*[queue(e, *[1] * 8, debt=debts[e]) for e in range(3)], batch_size=4)
        assert isinstance(made, BatchPlan)
        taken.append(made.composition.get(2, 0))
        debts = made.debts

    assert taken[:2] == [4, 4]
    assert taken[3] < 4


def test_a_weight_of_zero_gets_the_remainder() -> None:
    made = plan(queue(0, 1, 1, 1, weight=0.0), queue(1, 1, 1, first=100), batch_size=3)

    assert isinstance(made, BatchPlan)
    assert made.composition == {1: 2, 0: 1}
    assert made.shares == {0: 0.0, 1: 1.0}


def test_groups_without_an_environment_share_one_queue() -> None:
    made = plan(queue(NO_ENVIRONMENT, *[1] * 8, first=100), queue(1, *[1] * 8), batch_size=4)

    assert isinstance(made, BatchPlan)
    assert made.composition == {NO_ENVIRONMENT: 2, 1: 2}


def test_an_unmet_minimum_delays_a_batch_until_its_deadline_and_becomes_a_debt() -> None:
    queues = [queue(0, *[1] * 8), queue(1, connected=True, minimum=0.5)]

    held = plan(*queues, batch_size=4)
    assert held == NoPlan(reason=NoBatch.WAITING_FOR_MINIMUM, waiting_for=(1,), blocked_since=NOON)
    late = NOON + timedelta(seconds=30)
    early = late - timedelta(microseconds=1)
    assert plan(*queues, batch_size=4, now=early, blocked_since=NOON) == held
    served = plan(*queues, batch_size=4, now=late, blocked_since=NOON)

    assert isinstance(served, BatchPlan)
    assert served.debts == {0: 0.0, 1: 4.0}


def test_a_minimum_that_sizes_alone_make_impossible_never_blocks() -> None:
    made = plan(
        queue(0, *[2] * 4),
        queue(1, 3, 3, connected=True, minimum=0.5),
        batch_size=4,
        deadline_seconds=None,
    )

    assert isinstance(made, BatchPlan)
    assert made.composition == {0: 4}


def test_minimums_beyond_the_batch_are_scaled_together() -> None:
    queues = [queue(e, 1, connected=True, minimum=0.75) for e in (0, 1)]

    assert required_sequences(queues, batch_size=8) == {0: 4, 1: 4}


def test_newer_groups_are_preferred_when_only_they_meet_every_minimum() -> None:
    """The 5 of the first environment leaves no room for the other's minimum; its 4 does."""
    made = plan(
        queue(0, 5, 4, connected=True, minimum=0.5),
        queue(1, 4, 3, connected=True, minimum=0.5),
        batch_size=8,
    )

    assert isinstance(made, BatchPlan)
    assert made.composition == {0: 4, 1: 4}


def test_the_forecast_equals_the_batch_for_small_groups() -> None:
    queues = [
        queue(0, *[1] * 60, debt=10.0, weight=2.0),
        queue(1, *[1] * 4),
        queue(2, *[1] * 60, first=3, debt=-10.0),
    ]

    made = plan(*queues, batch_size=40)

    assert isinstance(made, BatchPlan)
    for env_id, sequences in forecast(queues, batch_size=40).items():
        assert abs(sequences - made.composition.get(env_id, 0)) <= 1


def test_no_environment_of_any_weight_is_forecast_more_than_it_has() -> None:
    queues = [queue(0, 1, 1, weight=0.0), queue(1, connected=True)]

    assert forecast(queues, batch_size=8) == {0: 2, 1: 0}


def test_groups_that_are_known_by_size_only_are_shared_by_credit_as_well() -> None:
    made = plan(
        EnvironmentQueue(env_id=0, behind={2: 50}, weight=3.0),
        EnvironmentQueue(env_id=1, behind={2: 50}, weight=1.0),
        batch_size=16,
    )

    assert isinstance(made, BatchPlan)
    assert made.composition == {0: 12, 1: 4}


def test_groups_that_a_window_of_bit_sets_cannot_hold_complete_the_batch() -> None:
    """Of so large a batch sixteen groups are weighed: the odd one and fifteen of the others."""
    large = 1 << 20

    made = plan(queue(0, 3, *[large] * 20), batch_size=16 * large)

    assert isinstance(made, BatchPlan)
    assert made.chosen == [1 + 10 * place for place in range(1, 16)]
    assert made.behind == [Behind(env_id=0, sequences=large, count=1, after=151)]
