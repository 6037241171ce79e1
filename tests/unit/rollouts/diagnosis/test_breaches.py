"""The present breach of a limit begins with its first sample beyond the limit."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.diagnosis.rules.breaches import MICROS, breach_start
from rollouts.metrics.rules import blocks_of, condensed
from runs.alerts.rules import UNCOMPARED, Comparator, InvalidRule, Limit

VALUES = st.one_of(st.floats(-10, 10), st.sampled_from([math.nan, math.inf, -math.inf]))
SAMPLES = st.lists(st.tuples(st.integers(1, 20), VALUES), min_size=1, max_size=60)
COMPARATORS = [comparator for comparator in Comparator if comparator not in UNCOMPARED]
LIMITS = st.one_of(
    st.builds(
        Limit,
        comparator=st.sampled_from(COMPARATORS),
        threshold=st.floats(-10, 10),
        for_seconds=st.integers(0, 30),
    ),
    st.builds(Limit, comparator=st.just(Comparator.NOT_FINITE), for_seconds=st.integers(0, 30)),
)
Samples = list[tuple[int, float]]


def placed(samples: Samples) -> tuple[list[int], list[float]]:
    """Return times in seconds and values, given the delay before each sample."""
    waits, values = zip(*samples, strict=True)
    return np.cumsum(waits).tolist(), list(values)


def start(
    times: list[int], values: list[float], limit: Limit, *, until: int, at_most: int = 1000
) -> int | None:
    x = np.array(times, np.int64) * MICROS
    blocks = condensed(blocks_of(x, np.array(values, np.float64)), at_most=at_most).blocks
    began = breach_start(blocks, limit, until=until * MICROS)
    return None if began is None else began // MICROS


def walked(times: list[int], values: list[float], limit: Limit, *, until: int) -> int | None:
    """Find the present breach sample by sample, as a reference implementation."""
    began: int | None = None
    for at, value in zip(times, values, strict=True):
        if not limit.is_broken_by(value):
            began = None
        elif began is None:
            began = at
    return began if began is not None and until - began >= limit.for_seconds else None


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(samples=SAMPLES, limit=LIMITS, later=st.integers(0, 40))
def test_a_breach_matches_a_sample_by_sample_evaluation(
    samples: Samples, limit: Limit, later: int
) -> None:
    times, values = placed(samples)
    until = times[-1] + later

    assert start(times, values, limit, until=until) == walked(times, values, limit, until=until)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(samples=SAMPLES, limit=LIMITS)
def test_blocks_of_many_samples_have_no_false_breach(samples: Samples, limit: Limit) -> None:
    times, values = placed(samples)
    exact = walked(times, values, limit, until=times[-1])

    coarse = start(times, values, limit, until=times[-1], at_most=5)

    assert coarse is None or (exact is not None and exact <= coarse)


def test_a_number_holds_until_the_next_one() -> None:
    limit = Limit(comparator=Comparator.ABOVE, threshold=5, for_seconds=10)

    assert start([0, 30], [6, 1], limit, until=40) is None
    assert start([0], [6], limit, until=9) is None
    assert start([0], [6], limit, until=10) == 0


def test_values_that_are_not_finite_breach_only_their_rule() -> None:
    below = Limit(comparator=Comparator.BELOW, threshold=5)
    broken = Limit(comparator=Comparator.NOT_FINITE)

    assert start([0, 1, 2], [9, math.nan, -math.inf], below, until=3) is None
    assert start([0, 1, 2], [9, math.nan, -math.inf], broken, until=3) == 1


@pytest.mark.parametrize(
    ("comparator", "threshold", "seconds", "field"),
    [
        ("above", None, 0, "threshold"),
        ("above", math.inf, 0, "threshold"),
        ("not_finite", 1.0, 0, "threshold"),
        ("above", 1.0, 86_401, "for_seconds"),
        ("no_data", 1.0, 60, "threshold"),
        ("no_data", None, 0, "for_seconds"),
        ("no_data", None, 9, "for_seconds"),
    ],
)
def test_an_invalid_limit_is_refused(
    comparator: str, threshold: float | None, seconds: int, field: str
) -> None:
    with pytest.raises(InvalidRule) as refused:
        Limit(comparator=Comparator(comparator), threshold=threshold, for_seconds=seconds)

    assert refused.value.field == field


def test_a_limit_is_described_in_words() -> None:
    assert Limit(comparator=Comparator.ABOVE, threshold=5, for_seconds=600).condition == (
        "above 5 for 10 min"
    )
    assert Limit(comparator=Comparator.AT_MOST, threshold=1e-6, for_seconds=45).condition == (
        "at most 1e-06 for 45 s"
    )
    assert Limit(comparator=Comparator.NOT_FINITE).condition == "not finite"
    assert (
        Limit(comparator=Comparator.NO_DATA, for_seconds=600).condition == "without data for 10 min"
    )
