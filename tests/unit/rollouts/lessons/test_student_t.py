"""Student's t and Wilson bounds equal scipy's `stats.t.sf` and `binomtest(…).proportion_ci`."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.lessons.rules.evaluation import samples_to_show, two_sided_p, wilson

P_VALUES = [
    (0.0, 1, 1.0),
    (1.0, 1, 0.5),
    (2.5, 2, 0.12961172022151082),
    (0.3, 3, 0.783763292039919),
    (1.96, 48, 0.05581515145850319),
    (4.2, 49, 0.00011230229979240219),
    (0.01, 998, 0.9920232859288025),
    (3.3, 999, 0.001001031263055914),
]


@pytest.mark.parametrize(("t", "freedom", "p"), P_VALUES)
def test_p_values_are_those_of_the_t_distribution(t: float, freedom: int, p: float) -> None:
    assert two_sided_p(t, freedom=freedom) == pytest.approx(p, rel=1e-9)
    assert two_sided_p(-t, freedom=freedom) == two_sided_p(t, freedom=freedom)


def test_a_p_value_too_small_for_a_float_is_nearly_0() -> None:
    assert two_sided_p(12.0, freedom=198) == pytest.approx(0, abs=1e-12)


def test_wilson_bounds_equal_published_values() -> None:
    assert wilson(57, 64) == pytest.approx((0.8099585744285638, 0.9396043166137433), rel=1e-9)
    assert wilson(64, 64) == pytest.approx((0.959440500534153, 1.0), rel=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)


@given(samples=st.integers(1, 2000), share=st.floats(0, 1))
def test_wilson_bounds_enclose_the_rate(samples: int, share: float) -> None:
    successes = round(share * samples)
    lower, upper = wilson(successes, samples)
    assert 0 <= lower <= successes / samples + 1e-12
    assert successes / samples - 1e-12 <= upper <= 1


@given(rate=st.floats(0.01, 0.995))
def test_as_many_samples_as_needed_show_a_rate_and_fewer_do_not(rate: float) -> None:
    needed = samples_to_show(rate)
    assert wilson(needed, needed)[0] >= rate - 1e-9
    assert needed == 1 or wilson(needed - 1, needed - 1)[0] < rate + 1e-9
    assert not math.isinf(needed)
