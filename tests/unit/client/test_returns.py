"""Returns equal the definitions in the papers, also for episodes that end inside a fragment."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rolldeck.batches import Batch
from rolldeck.training.returns import Transitions, gae, transitions, vtrace
from tests.unit.client.batch_factories import make_batch_body, make_fragment

factors = st.floats(0, 1)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 12))
seeds = st.integers(0, 10_000)


def made_up_steps(seed: int, shape: tuple[int, int], *, endings: float = 0.3) -> Transitions:
    rng = np.random.default_rng(seed)
    rewards, values, next_values = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    real = rng.integers(1, shape[1] + 1, shape[0])
    # Inside an episode, each step's next observation is the following step's observation.
    ended = rng.random(shape) < endings
    next_values[:, :-1] = np.where(ended[:, :-1], next_values[:, :-1], values[:, 1:])
    return Transitions(
        rewards=rewards,
        values=values,
        next_values=next_values,
        ended=ended,
        mask=np.arange(shape[1]) < real[:, None],
    )


def rest_of_episode(steps: Transitions, n: int, t: int) -> range:
    """Return the steps from t to the end of the episode, of the fragment or of its real steps."""
    for later in range(t, steps.rewards.shape[1]):
        is_last = later + 1 == steps.rewards.shape[1] or not steps.mask[n, later + 1]
        if steps.ended[n, later] or is_last:
            return range(t, later + 1)
    raise AssertionError


def gae_by_definition(steps: Transitions, gamma: float, lam: float) -> NDArray[Any]:
    """Return the sum over l of (γλ)^l δ_{t+l}; 0 in padding."""
    result = np.zeros(steps.rewards.shape)
    for n, t in np.argwhere(steps.mask):
        for later in rest_of_episode(steps, n, t):
            delta = (
                steps.rewards[n, later]
                + gamma * steps.next_values[n, later]
                - steps.values[n, later]
            )
            result[n, t] += (gamma * lam) ** (later - t) * delta
    return result


def target_by_definition(
    steps: Transitions, ratio: NDArray[Any], at: tuple[int, int], factors: tuple[float, ...]
) -> float:
    """Return v_s of equation 1: V(x_s) + Σ_t γ^(t−s) (Π_{i<t} λ min(c̄, r_i)) min(ρ̄, r_t) δ_t."""
    gamma, lam, rho_clip, c_clip = factors
    n, s = at
    total, trace = float(steps.values[n, s]), 1.0
    for t in rest_of_episode(steps, n, s):
        delta = steps.rewards[n, t] + gamma * steps.next_values[n, t] - steps.values[n, t]
        total += gamma ** (t - s) * trace * min(rho_clip, ratio[n, t]) * delta
        trace *= lam * min(c_clip, ratio[n, t])
    return total


@given(seed=seeds, shape=shapes, gamma=factors, lam=factors)
def test_advantages_are_those_of_the_definition(
    seed: int, shape: tuple[int, int], gamma: float, lam: float
) -> None:
    steps = made_up_steps(seed, shape)

    learned = gae(steps, gamma=gamma, lam=lam)

    expected = gae_by_definition(steps, gamma, lam)
    np.testing.assert_allclose(learned.advantages, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(learned.targets, expected + steps.values, rtol=1e-4, atol=1e-4)
    assert (learned.weights == 1).all()


@given(
    seed=seeds,
    shape=shapes,
    gamma=factors,
    lam=factors,
    rho_clip=st.floats(0.1, 3),
    c_clip=st.floats(0.1, 3),
)
def test_targets_are_those_of_equation_1_and_advantages_those_of_equation_4(
    seed: int, shape: tuple[int, int], gamma: float, lam: float, rho_clip: float, c_clip: float
) -> None:
    steps = made_up_steps(seed, shape)
    log_ratio = np.random.default_rng(seed + 1).normal(size=shape).astype(np.float32)
    factors = gamma, lam, rho_clip, c_clip

    got = vtrace(steps, log_ratio, gamma=gamma, lam=lam, rho_clip=rho_clip, c_clip=c_clip)

    ratio = np.exp(log_ratio)
    for n, s in np.argwhere(steps.mask):
        target = target_by_definition(steps, ratio, (n, s), factors)
        followed = float(steps.next_values[n, s])
        if s + 1 in rest_of_episode(steps, n, s):
            next_target = target_by_definition(steps, ratio, (n, s + 1), factors)
            followed += lam * (next_target - followed)
        advantage = steps.rewards[n, s] + gamma * followed - steps.values[n, s]
        assert got.targets[n, s] == pytest.approx(target, rel=1e-3, abs=1e-3)
        assert got.advantages[n, s] == pytest.approx(advantage, rel=1e-3, abs=1e-3)
        assert got.weights[n, s] == pytest.approx(min(rho_clip, ratio[n, s]), rel=1e-4)


@given(seed=seeds, shape=shapes, gamma=factors)
def test_with_equal_policies_and_lambda_1_the_targets_are_the_future_rewards(
    seed: int, shape: tuple[int, int], gamma: float
) -> None:
    steps = made_up_steps(seed, shape)

    targets = vtrace(steps, np.zeros(shape, np.float32), gamma=gamma).targets

    for n, t in np.argwhere(steps.mask):
        rest = rest_of_episode(steps, n, t)
        expected = sum(gamma ** (later - t) * steps.rewards[n, later] for later in rest)
        expected += gamma ** len(rest) * steps.next_values[n, rest[-1]]
        assert targets[n, t] == pytest.approx(expected, rel=1e-3, abs=1e-3)


@given(seed=seeds, shape=shapes, gamma=factors, lam=factors)
def test_padding_changes_no_targets_and_has_no_gradient(
    seed: int, shape: tuple[int, int], gamma: float, lam: float
) -> None:
    steps = made_up_steps(seed, shape)
    log_ratio = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    other = made_up_steps(seed + 1, shape)
    padded_otherwise = Transitions(
        *(np.where(steps.mask, actual, padded) for actual, padded in zip(steps, other, strict=True))
    )._replace(mask=steps.mask)

    one = vtrace(steps, log_ratio, gamma=gamma, lam=lam)
    two = vtrace(padded_otherwise, log_ratio, gamma=gamma, lam=lam)

    np.testing.assert_array_equal(one.advantages, two.advantages)
    np.testing.assert_array_equal(one.targets[steps.mask], two.targets[steps.mask])
    assert (one.advantages[~steps.mask] == 0).all()


@given(seed=seeds, shape=shapes, gamma=factors, lam=factors)
def test_float64_in_is_float64_out(
    seed: int, shape: tuple[int, int], gamma: float, lam: float
) -> None:
    narrow = made_up_steps(seed, shape)
    wide = narrow._replace(
        **{name: getattr(narrow, name).astype(np.float64) for name in ("values", "next_values")}
    )

    learned = gae(wide, gamma=gamma, lam=lam)

    expected = gae_by_definition(wide, gamma, lam)
    assert {array.dtype for array in learned} == {np.dtype(np.float64)}
    np.testing.assert_allclose(learned.advantages, expected, rtol=1e-10, atol=1e-10)
    assert {array.dtype for array in gae(narrow, gamma=gamma, lam=lam)} == {np.dtype(np.float32)}


def test_actions_that_the_policy_would_not_take_count_little_and_no_weight_overflows() -> None:
    shape = (2, 6)
    steps = made_up_steps(0, shape, endings=0)
    unlikely = vtrace(steps, np.full(shape, -1e4, np.float32), gamma=0.9)
    likely = vtrace(steps, np.full(shape, 1e4, np.float32), gamma=0.9)

    np.testing.assert_array_equal(unlikely.targets, steps.values)
    np.testing.assert_allclose(likely.targets, gae(steps, gamma=0.9, lam=1).targets, rtol=1e-6)
    assert (likely.weights == 1).all()


def test_the_value_after_a_step_depends_on_the_end_of_the_episode() -> None:
    fragment = make_fragment(ends={2: "terminated", 5: "truncated"})
    arrays = Batch.decode(make_batch_body([fragment])).stack()
    values = np.arange(10, 18, dtype=np.float32)[None]

    steps = transitions(
        arrays,
        values=values,
        last_values=np.array([99], np.float32),
        final_values=np.array([50, 60], np.float32),
    )

    np.testing.assert_array_equal(steps.next_values, [[11, 12, 0, 14, 15, 60, 17, 99]])
    np.testing.assert_array_equal(np.flatnonzero(steps.ended), [2, 5])
    assert steps.mask.all()


def test_a_short_fragment_ends_with_its_next_observation() -> None:
    arrays = Batch.decode(make_batch_body([make_fragment(), make_fragment(number=1)])).stack()
    arrays["mask"] = np.arange(8) < np.array([[5], [8]])
    values = np.zeros((2, 8), np.float32)

    steps = transitions(
        arrays,
        values=values,
        last_values=np.array([7, 9], np.float32),
        final_values=np.zeros(0, np.float32),
    )

    assert steps.next_values[0, 4] == 7
    assert steps.next_values[1, 7] == 9


def test_a_truncated_step_without_a_final_observation_has_no_target() -> None:
    arrays = Batch.decode(make_batch_body([make_fragment()])).stack()
    arrays["truncated"][0, 3] = True
    arrays["reward"][0, 3] = 1e6
    values = np.arange(8, dtype=np.float32)[None]

    steps = transitions(
        arrays,
        values=values,
        last_values=np.array([8], np.float32),
        final_values=np.zeros(0, np.float32),
    )

    assert steps.mask[0].tolist() == [True] * 3 + [False] + [True] * 4
    learned = gae(steps, gamma=0.9, lam=1.0)
    assert (learned.advantages[0, 3], learned.targets[0, 3]) == (0, 3)
    # The step before it ends with the value of the observation after it.
    rewards = arrays["reward"][0]
    assert learned.targets[0, 2] == pytest.approx(rewards[2] + 0.9 * 3, rel=1e-5)
