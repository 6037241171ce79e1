"""Paced queue sizes keep the queue bounded, and stock environments cancel less work."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.batches.rules.pacing import (
    EnvironmentShare,
    EnvironmentStatus,
    is_over,
    paced,
    share_of,
)
from rolldeck.pacing import RESUME_FRACTION, HandlerState, PauseRule
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
