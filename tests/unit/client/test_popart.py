"""PopArt's statistics are those of the paper, and its updates preserve every output."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rolldeck.training.popart import PopArt

Floats = NDArray[Any]
dtypes = st.sampled_from([np.float32, np.float64])
scales = st.floats(-4, 5).map(lambda exponent: 10.0**exponent)
offsets = st.floats(-1e5, 1e5)
seeds = st.integers(0, 10_000)
betas = st.floats(1e-4, 1)


def head_of(rng: np.random.Generator, dtype: Any, *, outputs: int = 1) -> tuple[Floats, Floats]:
    return rng.normal(size=(outputs, 8)).astype(dtype), rng.normal(size=outputs).astype(dtype)


def rounding_of(popart: PopArt, weight: Floats, bias: Floats, inputs: Floats) -> float:
    """Return a bound of the rounding error of an output: 500 units of its largest summand."""
    normalized = (np.abs(inputs) @ np.abs(weight).T + np.abs(bias)).max()
    largest = np.abs(popart.mean).max() + popart.std.max() * (1 + float(normalized))
    return 500 * float(np.finfo(weight.dtype).eps) * float(largest)


@given(
    seed=seeds,
    dtype=dtypes,
    beta=betas,
    targets=st.lists(st.tuples(scales, offsets), min_size=1, max_size=6),
)
def test_updates_preserve_the_unnormalized_outputs(
    seed: int, dtype: Any, beta: float, targets: list[tuple[float, float]]
) -> None:
    rng = np.random.default_rng(seed)
    weight, bias = head_of(rng, dtype)
    inputs = rng.normal(size=(20, 8)).astype(dtype)
    popart = PopArt(beta=beta)

    for scale, offset in targets:
        before = popart.denormalize(inputs @ weight.T + bias)
        largest = rounding_of(popart, weight, bias, inputs)
        popart.update(rng.normal(offset, scale, 30).astype(dtype), (weight, bias))
        after = popart.denormalize(inputs @ weight.T + bias)

        assert after.dtype == dtype
        # A deviation far below the change of the mean makes the bias, and its rounding, large.
        largest += rounding_of(popart, weight, bias, inputs)
        np.testing.assert_allclose(after, before, rtol=0, atol=largest)


@given(
    seed=seeds,
    beta=betas,
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    scale=scales,
    offset=st.floats(-10, 10),
)
def test_statistics_are_the_bias_corrected_averages(
    seed: int, beta: float, sizes: list[int], scale: float, offset: float
) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(scale * offset, scale, size) for size in sizes]
    popart = PopArt(beta=beta, min_std=1e-12, max_std=1e12)

    for part in parts:
        popart.update(part)

    weights = beta * (1 - beta) ** np.arange(len(parts))[::-1]
    weights /= weights.sum()
    mean = weights @ [part.mean() for part in parts]
    second = weights @ [(part**2).mean() for part in parts]
    np.testing.assert_allclose(popart.mean, mean, rtol=1e-9, atol=1e-9 * scale)
    variance = max(0.0, second - mean**2)
    np.testing.assert_allclose(popart.std**2, variance, rtol=1e-6, atol=1e-9 * second + 1e-24)


def test_the_first_update_adopts_a_variance_of_0_for_every_rate() -> None:
    for beta in np.linspace(0.001, 0.999, 1000):
        popart = PopArt(beta=float(beta), min_std=1e-12)
        popart.update(np.array([1e6]))
        assert (popart.mean, popart.std) == (1e6, 1e-12)


@given(seed=seeds, dtype=dtypes, scale=scales, offset=st.floats(-100, 100))
def test_normalized_targets_have_mean_0_and_deviation_1(
    seed: int, dtype: Any, scale: float, offset: float
) -> None:
    targets = np.random.default_rng(seed).normal(offset * scale, scale, (5, 40)).astype(dtype)
    popart = PopArt(min_std=1e-9)
    popart.update(targets)

    normal = popart.normalize(targets)

    assert normal.dtype == dtype
    assert normal.shape == targets.shape
    assert abs(normal.mean()) < 1e-3
    assert normal.std() == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(popart.denormalize(normal), targets, rtol=1e-3, atol=1e-3 * scale)


def test_a_small_deviation_around_a_large_mean_is_not_lost() -> None:
    rng = np.random.default_rng(0)
    popart = PopArt(beta=0.1, min_std=1e-9)

    for _ in range(200):
        popart.update(1e9 + rng.normal(0, 1e-3, 1000))

    assert popart.std[0] == pytest.approx(1e-3, rel=0.05)


def test_old_targets_lose_their_weight() -> None:
    popart = PopArt(beta=0.1)
    popart.update(np.full(10, -500.0))

    for _ in range(200):
        popart.update(np.array([99.0, 101.0]))

    assert popart.mean[0] == pytest.approx(100, abs=1e-3)
    assert popart.std[0] == pytest.approx(1, abs=1e-3)


def test_the_deviation_stays_within_its_bounds_and_outputs_are_preserved() -> None:
    weight, bias = np.ones((1, 8)), np.zeros(1)
    popart = PopArt(min_std=0.5, max_std=50)

    for target, bounded in ((np.full(4, 3.0), 0.5), (np.array([-1e3, 1e3]), 50.0)):
        before = popart.denormalize(weight.sum(axis=1) + bias)
        popart = _restarted(popart)
        popart.update(target, (weight, bias))
        assert popart.std.tolist() == [bounded]
        np.testing.assert_allclose(popart.denormalize(weight.sum(axis=1) + bias), before)


def _restarted(popart: PopArt) -> PopArt:
    """Return it with its next update counted as the first."""
    popart.load_state_dict(popart.state_dict() | {"updates": np.zeros(1)})
    return popart


@given(seed=seeds, dtype=dtypes, outputs=st.integers(2, 5))
def test_each_task_has_its_own_statistics(seed: int, dtype: Any, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    task = rng.integers(0, outputs, 50)
    targets = (10.0**task * rng.normal(3, 1, 50)).astype(dtype)
    weight, bias = head_of(rng, dtype, outputs=outputs)
    inputs = rng.normal(size=(20, 8)).astype(dtype)
    popart = PopArt(outputs)
    before = popart.denormalize(inputs @ weight.T + bias)

    popart.update(targets, (weight, bias), task=task)

    after = popart.denormalize(inputs @ weight.T + bias)
    np.testing.assert_allclose(
        after, before, rtol=0, atol=rounding_of(popart, weight, bias, inputs)
    )
    for one in range(outputs):
        own = targets[task == one]
        alone = PopArt()
        alone.update(own)
        assert popart.mean[one] == pytest.approx(alone.mean[0], rel=1e-9)
        assert popart.std[one] == pytest.approx(alone.std[0], rel=1e-9)
        np.testing.assert_allclose(
            popart.normalize(targets, task)[task == one], alone.normalize(own), rtol=1e-3
        )
    np.testing.assert_allclose(
        popart.denormalize(popart.normalize(targets, task), task), targets, rtol=1e-3, atol=1e-4
    )


def test_all_outputs_learn_from_targets_of_all() -> None:
    popart = PopArt(2)

    popart.update(np.array([[0.0, 100.0], [2.0, 300.0]]))

    assert popart.mean.tolist() == [1.0, 200.0]
    assert popart.std.tolist() == [1.0, 100.0]
    assert popart.normalize(np.array([2.0, 300.0])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_heads_are_rescaled_in_place(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    head, target = (torch.nn.Linear(8, 1, dtype=dtype) for _ in range(2))
    inputs = torch.randn(20, 8, dtype=dtype)
    popart = PopArt()
    weight = head.weight

    def outputs() -> list[Floats]:
        with torch.no_grad():
            return [popart.denormalize(one(inputs).numpy()) for one in (head, target)]

    before = outputs()
    popart.update(np.array([-300.0, 700.0]), *((one.weight, one.bias) for one in (head, target)))

    assert head.weight is weight
    assert weight.requires_grad
    assert weight.is_leaf
    np.testing.assert_allclose(outputs(), before, rtol=0, atol=1e-3)
    assert float(weight.detach().abs().max()) < 0.01


@given(seed=seeds, dtype=dtypes)
def test_an_unnormalized_head_has_the_outputs_in_the_unit_of_the_rewards(
    seed: int, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    weight, bias = head_of(rng, dtype)
    inputs = rng.normal(size=(20, 8)).astype(dtype)
    popart = PopArt()
    popart.update(rng.normal(-300, 50, 20), (weight, bias))
    shown = weight.copy(), bias.copy()

    raw_weight, raw_bias = popart.unnormalized(weight, bias)

    assert raw_weight.dtype == raw_bias.dtype == dtype
    np.testing.assert_array_equal(weight, shown[0])
    np.testing.assert_allclose(
        inputs @ raw_weight.T + raw_bias,
        popart.denormalize(inputs @ weight.T + bias),
        rtol=0,
        atol=rounding_of(popart, weight, bias, inputs),
    )


@given(seed=seeds, outputs=st.integers(1, 3))
def test_a_restored_state_continues_the_saved_one(seed: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = PopArt(outputs, beta=0.2), PopArt(outputs, beta=0.2)
    for _ in range(3):
        one.update(rng.normal(5, 2, (7, outputs)))

    other.load_state_dict(one.state_dict())
    later = rng.normal(-5, 2, (7, outputs))
    for popart in (one, other):
        popart.update(later)

    assert {name: array.tolist() for name, array in one.state_dict().items()} == {
        name: array.tolist() for name, array in other.state_dict().items()
    }


def test_a_saved_state_is_a_copy() -> None:
    popart = PopArt()
    state = popart.state_dict()
    state["mean"] += 1

    assert popart.mean.tolist() == [0.0]


def test_without_targets_nothing_changes() -> None:
    popart, weight, bias = PopArt(), np.ones((1, 2)), np.ones(1)
    popart.update(np.array([1.0, 3.0]), (weight, bias))
    state, before = popart.state_dict(), weight.copy()

    popart.update(np.zeros(0), (weight, bias))

    assert popart.state_dict() == state
    np.testing.assert_array_equal(weight, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda popart, head: popart.update(np.array([1.0, np.nan, np.inf]), head),
            "targets: 2 of 3 are not finite",
        ),
        (
            lambda popart, head: popart.update(np.array([-1e200, 1e200]), head),
            r"targets: up to 1e\+200, their variance exceeds float64",
        ),
        (
            lambda popart, head: popart.update(np.ones(3), (head[0].T, head[1])),
            r"weight: shape \(8, 1\), must be \(1, inputs\)",
        ),
        (
            lambda popart, head: popart.update(np.ones(3), head, (head[0], np.ones(2))),
            r"bias: shape \(2,\), must be \(1,\)",
        ),
        (
            lambda popart, head: popart.update(np.ones(3), (head[0].astype(np.float16), head[1])),
            "weight: dtype float16 cannot preserve outputs, must be float32 or float64",
        ),
        (
            lambda popart, head: popart.update(np.ones(3), head, task=np.array([0, 1, 0])),
            "task: 0 to 1, must be from 0 to 0",
        ),
        (
            lambda popart, head: popart.update(np.ones(3), head, task=np.zeros(2, np.int64)),
            r"task: shape \(2,\), must be \(3,\) as the values",
        ),
        (
            lambda popart, _: popart.load_state_dict({"mean": np.zeros(1)}),
            r"state: has \['mean'\], must have \['mean', 'updates', 'variance'\]",
        ),
        (
            lambda popart, _: popart.load_state_dict(PopArt(2).state_dict()),
            r"mean: shape \(2,\), must be \(1,\)",
        ),
        (
            lambda popart, _: popart.load_state_dict(
                popart.state_dict() | {"variance": np.array([-1.0])}
            ),
            "variance: must be finite and, except mean, at least 0",
        ),
    ],
)
def test_invalid_arguments_are_named_and_change_nothing(
    change: Callable[[PopArt, tuple[Floats, Floats]], None], message: str
) -> None:
    popart, head = PopArt(), head_of(np.random.default_rng(0), np.float32)
    popart.update(np.array([1.0, 4.0]), head)
    state, before = popart.state_dict(), head[0].copy()

    with pytest.raises(ValueError, match=message):
        change(popart, head)

    assert popart.state_dict() == state
    np.testing.assert_array_equal(head[0], before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outputs": 0}, "outputs: 0, must be at least 1"),
        ({"beta": 0.0}, "beta: 0.0, must be above 0 and at most 1"),
        ({"min_std": 2.0, "max_std": 1.0}, "min_std, max_std: 2.0, 1.0, must be above 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PopArt(**settings)


def test_several_outputs_need_a_task_or_a_value_of_each() -> None:
    with pytest.raises(ValueError, match=r"values: shape \(5,\), must end with 2 outputs"):
        PopArt(2).normalize(np.ones(5))
