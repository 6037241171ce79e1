from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.replay.rules import (
    MOST_CANDIDATES,
    Chunks,
    SamplerName,
    SamplerRule,
    TooFewChunks,
    candidate_ids,
    fair_quotas,
    importance_weights,
)

NAMES: tuple[SamplerName, ...] = (
    "fifo",
    "uniform",
    "recency",
    "balanced",
    "weighted",
    "prioritized",
)


def chunks(count: int, **arrays: Any) -> Chunks:
    """Return chunks 10, 11, …; versions, environments and priorities are plain unless given."""
    plain = {
        "versions": np.zeros(count, np.int64),
        "environments": np.zeros(count, np.int64),
        "priorities": np.full(count, np.nan),
    }
    return Chunks(
        ids=np.arange(10, 10 + count),
        **(plain | {name: np.asarray(values) for name, values in arrays.items()}),
    )


def shares(rule: SamplerRule, of: Chunks, *, draws: int = 20_000, count: int = 1) -> list[float]:
    """Return how often each chunk is in a sample, by a generator that is always the same."""
    rng = np.random.default_rng(7)
    seen: Counter[int] = Counter()
    for _ in range(draws):
        seen.update(rule.sample(of, count, rng).ids.tolist())
    return [seen[item] / draws for item in of.ids.tolist()]


@given(st.sampled_from(NAMES), st.integers(1, 40), st.data())
def test_a_sample_has_distinct_chunks_and_weights_up_to_one(
    name: SamplerName, total: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, total))
    of = chunks(
        total,
        versions=data.draw(st.lists(st.integers(-1, 9), min_size=total, max_size=total)),
        environments=data.draw(st.lists(st.integers(0, 3), min_size=total, max_size=total)),
        priorities=data.draw(
            st.lists(
                st.floats(1e-300, 1e300) | st.just(float("nan")), min_size=total, max_size=total
            )
        ),
    )

    sample = SamplerRule(name=name).sample(of, count, np.random.default_rng(0))

    assert len(set(sample.ids.tolist())) == count
    assert set(sample.ids.tolist()) <= set(of.ids.tolist())
    assert sample.importance_weights.shape == (count,)
    assert sample.importance_weights.max() == 1
    assert (sample.importance_weights >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_generator_draws_the_same_sample(name: SamplerName) -> None:
    first, second = (
        SamplerRule(name=name).sample(chunks(50), 9, np.random.default_rng(3)).ids for _ in "ab"
    )

    assert first.tolist() == second.tolist()


def test_a_sample_cannot_exceed_the_stored_items() -> None:
    with pytest.raises(TooFewChunks):
        SamplerRule(name="uniform").sample(chunks(2), 3, np.random.default_rng(0))


def test_fifo_samples_the_oldest_in_order() -> None:
    sample = SamplerRule(name="fifo").sample(chunks(5), 3, np.random.default_rng(0))

    assert sample.ids.tolist() == [10, 11, 12]


def test_uniform_samples_each_chunk_equally_often() -> None:
    assert shares(SamplerRule(name="uniform"), chunks(4)) == pytest.approx([0.25] * 4, abs=0.02)


def test_recency_prefers_newer_versions_and_newer_chunks_of_one_version() -> None:
    of = chunks(4, versions=[5, 3, 5, 4])

    # Ranks 3, 1, 4, 2 by version, then by age; with alpha 1 the chances are those over 10.
    shares_by_id = shares(SamplerRule(name="recency", alpha=1), of)

    assert shares_by_id == pytest.approx([0.3, 0.1, 0.4, 0.2], abs=0.02)


def test_recency_with_alpha_zero_is_uniform() -> None:
    shares_by_id = shares(SamplerRule(name="recency", alpha=0), chunks(4, versions=[1, 2, 3, 4]))

    assert shares_by_id == pytest.approx([0.25] * 4, abs=0.02)


def test_balanced_samples_rare_and_common_environments_equally() -> None:
    of = chunks(100, environments=[0] * 90 + [1] * 10)

    sample = SamplerRule(name="balanced").sample(of, 16, np.random.default_rng(0))

    assert Counter((sample.ids >= 100).tolist()) == {True: 8, False: 8}
    assert shares(SamplerRule(name="balanced"), of)[95] == pytest.approx(0.05, abs=0.01)


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 10**6), st.integers(0, 9)
)
def test_quotas_are_as_even_as_the_environments_allow(
    sizes: list[int], requested: int, seed: int
) -> None:
    count = requested % (sum(sizes) + 1)

    quotas = fair_quotas(np.array(sizes), count, np.random.default_rng(seed))

    assert quotas.sum() == count
    assert (quotas <= sizes).all()
    unfinished = quotas[quotas < sizes]
    if len(unfinished):
        assert quotas.max() <= unfinished.min() + 1


def test_weighted_samples_in_proportion_and_counts_a_new_chunk_as_one() -> None:
    of = chunks(3, priorities=[3.0, np.nan, 4.0])

    assert shares(SamplerRule(name="weighted"), of) == pytest.approx(
        [3 / 8, 1 / 8, 1 / 2], abs=0.02
    )


def test_prioritized_samples_in_proportion_to_the_power_alpha() -> None:
    of = chunks(3, priorities=[1.0, 4.0, 9.0])

    shares_by_id = shares(SamplerRule(name="prioritized", alpha=0.5), of)

    assert shares_by_id == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=0.02)


def test_a_new_chunk_has_the_highest_priority() -> None:
    of = chunks(3, priorities=[1.0, 5.0, np.nan])

    shares_by_id = shares(SamplerRule(name="prioritized", alpha=1), of)

    assert shares_by_id == pytest.approx([1 / 11, 5 / 11, 5 / 11], abs=0.02)


def test_importance_weights_are_those_of_the_paper() -> None:
    priorities = np.array([1.0, 2.0, 5.0, 8.0])
    rule = SamplerRule(name="prioritized", alpha=0.7, beta=0.4)

    sample = rule.sample(chunks(4, priorities=priorities), 4, np.random.default_rng(1))

    chances = priorities**0.7 / (priorities**0.7).sum()
    weights = (4 * chances) ** -0.4
    expected = dict(zip([10, 11, 12, 13], weights / weights.max(), strict=True))
    by_id = dict(zip(sample.ids.tolist(), sample.importance_weights.tolist(), strict=True))
    assert by_id == pytest.approx(expected)


def test_importance_weights_make_the_estimate_of_a_mean_unbiased() -> None:
    rng = np.random.default_rng(5)
    priorities = rng.random(50) + 0.05
    values = priorities + rng.random(50)
    rule = SamplerRule(name="prioritized", alpha=1, beta=1)
    of = chunks(50, priorities=priorities)
    # A sample of one is its own maximum, so its weight is taken against all of them.
    weights = importance_weights(np.log(priorities), np.arange(50), beta=1)

    drawn = [int(rule.sample(of, 1, rng).ids[0]) - 10 for _ in range(20_000)]

    estimate = (weights[drawn] * values[drawn]).sum() / weights[drawn].sum()
    assert estimate == pytest.approx(values.mean(), abs=0.02)
    assert abs(values[drawn].mean() - values.mean()) > 0.03


@given(st.integers(1, 200), st.integers(1, 5), st.data())
def test_candidates_are_distinct_ids_of_the_interval(
    size: int, gaps: int, data: st.DataObject
) -> None:
    available = -(-size // gaps)
    count = data.draw(st.integers(1, available))

    drawn = candidate_ids(
        7, 6 + size, available=available, count=count, rng=np.random.default_rng(0)
    )

    assert drawn is not None
    assert len(set(drawn.tolist())) == len(drawn) >= min(count, size)
    assert set(drawn.tolist()) <= set(range(7, 7 + size))


def test_candidates_contain_enough_available_ids_and_each_as_often() -> None:
    # Every third id is available, as if three runs pushed in turn.
    available = list(range(10, 310, 3))
    rng = np.random.default_rng(7)
    seen: Counter[int] = Counter()
    draws, short = 4000, 0
    for _ in range(draws):
        drawn = candidate_ids(10, 307, available=len(available), count=10, rng=rng)
        assert drawn is not None
        found = [item for item in drawn.tolist() if (item - 10) % 3 == 0][:10]
        short += len(found) < 10
        seen.update(found)

    assert short / draws < 0.001
    rates = np.array([seen[item] / draws for item in available])
    assert rates == pytest.approx(10 / len(available), abs=0.025)


def test_too_sparse_ids_have_no_candidates() -> None:
    rng = np.random.default_rng(0)

    assert candidate_ids(1, 10_000_000, available=64, count=32, rng=rng) is None
    dense = candidate_ids(1, 64, available=64, count=32, rng=rng)
    assert dense is not None
    assert len(dense) == 32 < MOST_CANDIDATES
