"""Pacing of producers, their gates, and the waiting share of trainers."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.batches.rules.pacing import (
    EnvironmentShare,
    EnvironmentStatus,
    is_over,
    mean_versions,
    paced,
    share_of,
    staleness_gate,
    tolerance_gate,
    waiting_share,
    window_seconds,
)
from rolldeck.pacing import RESUME_FRACTION, HandlerState, PauseRule
from runs.lifecycle.rules import admission_capacity
from tests.stock_environments import Outcome, cast, simulate

RULE = PauseRule(batch_size=64, off_policy_tolerance=3)


def share(env_id: int, **fields: Any) -> EnvironmentShare:
    plain: dict[str, Any] = {
        "max_token_length": 1024,
        "weight": 1.0,
        "group_size": 8,
        "min_batch_allocation": None,
        "connected": True,
    }
    return EnvironmentShare(env_id=env_id, **(plain | fields))


def capacity(
    queued: dict[int | None, int], *, env_id: int = 0, environments: int = 2, over: bool = True
) -> int:
    """Return the paced queue size for an environment, where 0.4.0 reports the exact one."""
    exact = EnvironmentStatus(
        queue_size=sum(queued.values()) // 8,
        unallocated_fraction=1.0,
        self_queue_size=0,
        max_group_size=8,
        env_weight=0.5,
    )
    pace = paced(
        exact,
        env_id=env_id,
        environments=[share(number) for number in range(environments)],
        queued=queued,
        rule=RULE,
        over=over,
    )
    return pace.queue_size


def run(environments: int, *, is_paced: bool) -> Outcome:
    return simulate(
        cast(environments, RULE), rule=RULE, train_ticks=150, ticks=2000, is_paced=is_paced
    )


def test_below_the_tolerance_an_environment_gets_the_status_of_0_4_0() -> None:
    assert capacity({0: 80, 1: 64}, over=False) == 18


def test_packing_alone_does_not_close_the_queue() -> None:
    assert capacity({0: 188, 1: 64}, over=False) == 23


def test_over_the_tolerance_each_environment_gets_its_share_of_the_queue() -> None:
    # 192 sequences may wait, 96 of each environment: room for 12 groups less those it has queued.
    assert capacity({0: 80, 1: 112}) == 24 - 2
    assert capacity({0: 80, 1: 200}) == 24 - 2
    assert capacity({0: 96, 1: 96}) == 24
    assert capacity({0: 112, 1: 96}) == 26


def test_items_of_disconnected_environments_count_against_all() -> None:
    assert capacity({0: 0, 1: 0, None: 96}) == 24 - 6


@given(weights=st.lists(st.floats(0, 100), min_size=1, max_size=9), minimum=st.floats(0, 1))
def test_shares_sum_to_the_queue(weights: list[float], minimum: float) -> None:
    environments = [share(number, weight=weight) for number, weight in enumerate(weights)]
    environments.append(share(99, weight=0.0, min_batch_allocation=minimum))

    parts = [share_of(environment.env_id, environments) for environment in environments]

    assert sum(parts) == pytest.approx(1.0)
    assert min(parts) >= 0


@given(st.lists(st.integers(0, 400), max_size=60), st.integers(1, 200), st.floats(0.1, 9))
def test_the_queue_keeps_its_state_between_the_marks(
    lengths: list[int], batch_size: int, tolerance: float
) -> None:
    rule = PauseRule(batch_size=batch_size, off_policy_tolerance=tolerance)
    over = False
    for queued in lengths:
        before, over = over, is_over(rule, over=over, queued=queued)
        if queued >= rule.pause_above:
            assert over
        elif queued <= rule.resume_at:
            assert not over
        else:
            assert over is before


@given(st.integers(1, 500), st.floats(1, 50), st.floats(0, 1))
def test_a_remainder_below_a_batch_never_pauses_producers(
    batch_size: int, tolerance: float, fraction: float
) -> None:
    rule = PauseRule(
        batch_size=batch_size, off_policy_tolerance=tolerance, resume_fraction=fraction
    )

    assert not is_over(rule, over=True, queued=batch_size - 1)
    assert rule.state_after(HandlerState.PAUSED, queued=batch_size - 1) is HandlerState.RUNNING


def test_handlers_and_platform_have_the_same_marks() -> None:
    assert PauseRule(batch_size=100, off_policy_tolerance=4).resume_at == RESUME_FRACTION * 400


def test_a_paced_handler_uses_the_room_of_its_share() -> None:
    assert RULE.state_after(HandlerState.PAUSED, queued=184, paced=True) is HandlerState.RUNNING
    assert RULE.state_after(HandlerState.RUNNING, queued=192, paced=True) is HandlerState.PAUSED


def test_one_stock_environment_drops_no_groups() -> None:
    assert run(1, is_paced=True) == run(1, is_paced=False)
    assert run(1, is_paced=True).cancelled == 0


@pytest.mark.parametrize("environments", [4, 8])
def test_several_stock_environments_drop_fewer_groups_at_equal_speed(environments: int) -> None:
    bare, smooth = run(environments, is_paced=False), run(environments, is_paced=True)

    assert smooth.cancelled < bare.cancelled / 2
    assert smooth.wasted_share < bare.wasted_share
    assert smooth.trained >= bare.trained
    assert smooth.longest_queue <= 1.5 * RULE.pause_above


@given(st.data())
def test_environments_that_use_all_reported_room_stay_within_twice_the_tolerance(
    data: st.DataObject,
) -> None:
    environments = data.draw(st.integers(1, 5))
    queued: dict[int | None, int] = dict.fromkeys(range(environments), 0)
    over = False
    for _ in range(data.draw(st.integers(1, 30))):
        env_id = data.draw(st.sampled_from(sorted(key for key in queued if key is not None)))
        over = is_over(RULE, over=over, queued=sum(queued.values()))
        room = 24 - capacity(queued, env_id=env_id, environments=environments, over=over)
        queued[env_id] += 8 * max(0, room)
        if data.draw(st.booleans()):
            queued = {key: max(0, count - 64 // environments) for key, count in queued.items()}
        assert sum(queued.values()) <= 2 * RULE.pause_above


LARGE_RULE = PauseRule(batch_size=256, off_policy_tolerance=3)


def test_a_queue_over_its_tolerance_is_reported_with_its_numbers() -> None:
    gate = tolerance_gate(LARGE_RULE, queued=913, over=True)

    assert gate.condition == "queued 913 > tolerance × batch = 3 × 256 = 768"
    assert (gate.closed, gate.reopens_after) == (True, 913 - 384)


def test_between_the_marks_the_status_has_the_resume_mark() -> None:
    gate = tolerance_gate(LARGE_RULE, queued=500, over=True)

    assert gate.condition.endswith("500 < tolerance × batch = 3 × 256 = 768; resumes at 384")
    assert (gate.closed, gate.reopens_after) == (True, 116)


def test_an_open_gate_waits_for_nothing() -> None:
    gate = tolerance_gate(LARGE_RULE, queued=500, over=False)

    assert (gate.closed, gate.reopens_after) == (False, 0)


@given(
    admitted=st.integers(0, 10_000),
    trained=st.integers(0, 50),
    batches_ahead=st.integers(1, 8),
    batch_size=st.integers(1, 300),
)
def test_the_gate_of_staleness_is_closed_exactly_when_nothing_is_admitted(
    admitted: int, trained: int, batches_ahead: int, batch_size: int
) -> None:
    def room(steps: float) -> int:
        return admission_capacity(
            batches_ahead=batches_ahead,
            trained=int(steps),
            per_batch=batch_size,
            accepted=admitted,
            running=0,
        )

    gate = staleness_gate(
        admitted=admitted, trained=trained, batches_ahead=batches_ahead, batch_size=batch_size
    )

    assert gate.closed is (room(trained) == 0)
    if gate.closed:
        steps = gate.reopens_after / batch_size
        assert room(trained + steps) > 0
        assert room(trained + steps - 1) == 0


SECONDS = st.floats(0, 100)
SPANS = st.lists(st.tuples(SECONDS, SECONDS).map(sorted).map(tuple), max_size=20)


@pytest.mark.parametrize(
    ("held", "share"),
    [
        ([], 1.0),
        ([(0, 10)], 0.0),
        ([(0, 2), (8, 10)], 0.6),
        pytest.param([(0, 6), (4, 8)], 0.2, id="the next batch is fetched while one is trained on"),
        pytest.param([(-5, 3), (9, 30)], 0.6, id="only what lies within counts"),
    ],
)
def test_a_trainer_waits_while_it_has_no_batch(
    held: list[tuple[float, float]], share: float
) -> None:
    assert waiting_share(held, since=0, until=10) == pytest.approx(share)


def test_an_empty_period_has_no_shares() -> None:
    assert waiting_share([(0, 1)], since=5, until=5) is None


@given(spans=SPANS)
def test_the_wait_is_the_share_of_time_that_no_span_covers(
    spans: list[tuple[float, float]],
) -> None:
    share = waiting_share(spans, since=20, until=80)

    edges = sorted({20.0, 80.0, *(edge for span in spans for edge in span if 20 < edge < 80)})
    open_seconds = sum(
        after - before
        for before, after in pairwise(edges)
        if not any(began <= before and after <= ended for began, ended in spans)
    )
    assert share == pytest.approx(open_seconds / 60, abs=1e-9)


def test_versions_behind_are_weighted_by_items() -> None:
    assert mean_versions([{"0": 3, "1": 1}, {"2": 4, "unknown": 9}]) == pytest.approx(9 / 8)
    assert mean_versions([{}, {"unknown": 1}]) is None


@pytest.mark.parametrize(
    ("leases", "seconds"),
    [
        ([], 60),
        ([[950.0]], 60),
        ([[900.0, 930.0, 960.0]], 60),
        ([[810.0, 900.0, 990.0]], 180),
        pytest.param([[900.0, 900.0], [880.0, 960.0]], 160, id="the slowest trainer counts"),
        pytest.param([[600.0, 690.0]], 60, id="a trainer that missed two cycles does not"),
        pytest.param([[0.0, 999.0]], 600, id="at most ten minutes"),
    ],
)
def test_window_covers_two_cycles_of_a_slow_trainer(
    leases: list[list[float]], seconds: float
) -> None:
    starts = [(trainer, at) for trainer, times in enumerate(leases) for at in times]

    assert window_seconds(starts, now=1000.0) == seconds
