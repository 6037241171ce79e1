"""Chunks of joined fragments equal the unbroken trajectory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.lockstep import LockstepFleet, batch_of
from examples.ppo_recurrent import policy_for
from rolldeck.errors import InvalidMessageError
from rolldeck.training.chunks import Chunk, join, stack
from rolldeck.training.returns import TrainingTargets, gae, transitions, vtrace
from rolldeck.wire import (
    Fragment,
    pack_array,
    unpack_array,
)
from runs.config.rules import run_config
from tests.unit.client.batch_factories import make_fragment, with_arrays
from tests.unit.client.chunk_trajectories import (
    OBS,
    PER_STEP,
    Arrays,
    Trajectory,
    by_definition,
    cut_trajectories,
    fragment_of,
    log_ratio_of,
    steps_of,
    trajectory,
    unbroken,
    views,
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(cut=cut_trajectories(), gamma=st.floats(0, 1), lam=st.floats(0, 1))
def test_gae_and_vtrace_of_a_chunk_are_those_of_the_unbroken_trajectory(
    dtype: Any, cut: tuple[Trajectory, list[Fragment]], gamma: float, lam: float
) -> None:
    whole, fragments = cut
    expected, joined = unbroken(whole), stack(join(views(fragments)))

    def learned(arrays: Arrays, *, corrected: bool) -> TrainingTargets:
        steps = steps_of(arrays, dtype)
        if not corrected:
            return gae(steps, gamma=gamma, lam=lam)
        return vtrace(steps, log_ratio_of(arrays, dtype), gamma=gamma, lam=lam)

    for corrected in (False, True):
        one, other = (learned(arrays, corrected=corrected) for arrays in (joined, expected))
        for field in TrainingTargets._fields:
            found = getattr(one, field)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, getattr(other, field))
        definition = by_definition(expected, gamma=gamma, lam=lam, corrected=corrected)
        tolerance = 1e-4 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(one.targets[0], definition, rtol=tolerance, atol=tolerance)


@given(cut=cut_trajectories())
def test_a_chunk_has_the_steps_of_the_unbroken_trajectory(
    cut: tuple[Trajectory, list[Fragment]],
) -> None:
    whole, fragments = cut

    (chunk,) = join(views(fragments))

    assert len(chunk) == len(whole.states)
    for name in (*PER_STEP, "next_obs", "final_obs", "final_step"):
        np.testing.assert_array_equal(chunk.arrays[name], whole.arrays[name], err_msg=name)
        assert chunk.arrays[name].flags.writeable
    np.testing.assert_array_equal(chunk.arrays["in_state.hidden"], whole.states[0])
    assert list(chunk.episode_ids) == whole.episode_ids
    ordered = sorted(range(len(fragments)), key=lambda item: fragments[item].number)
    assert chunk.items == tuple(ordered)
    assert list(chunk.numbers) == [fragments[item].number for item in ordered]
    versions = whole.arrays["policy_step"]
    changes = [0, *(t for t in range(1, len(versions)) if versions[t] != versions[t - 1])]
    assert chunk.version_starts.tolist() == changes
    borders = [0, *np.cumsum([sum_of_mask(fragments[item]) for item in ordered])[:-1]]
    assert chunk.fragment_starts.tolist() == borders
    np.testing.assert_array_equal(
        chunk.arrays["item"],
        np.repeat(ordered, np.diff([*borders, len(whole.states)])),
    )


def sum_of_mask(fragment: Fragment) -> int:
    mask = fragment.arrays.get("mask")
    return fragment.steps if mask is None else int(unpack_array(mask).sum())


@given(
    seed=st.integers(0, 1000),
    slots=st.integers(1, 4),
    kept=st.lists(st.booleans(), min_size=24, max_size=24).filter(any),
    random=st.randoms(use_true_random=False),
)
def test_every_fragment_is_in_one_chunk_and_gaps_begin_others(
    seed: int, slots: int, kept: list[bool], random: Any
) -> None:
    made = [
        fragment_of(whole, 4 * n, 4 * n + 4, number=n, slot=f"w0-{slot}@t")
        for slot in range(slots)
        for whole in [trajectory(seed + slot, 24)]
        for n in range(6)
    ]
    fragments = [one for one, is_kept in zip(made, kept, strict=False) if is_kept]
    random.shuffle(fragments)

    chunks = join(views(fragments))

    assert sorted(item for chunk in chunks for item in chunk.items) == list(range(len(fragments)))
    found = {(chunk.slot, number) for chunk in chunks for number in chunk.numbers}
    assert found == {(one.slot, one.number) for one in fragments}
    # Maximal: no chunk could be continued by another.
    ends = {(chunk.slot, chunk.numbers.stop) for chunk in chunks}
    assert not ends & {(chunk.slot, chunk.numbers.start) for chunk in chunks}
    if chunks:
        arrays = stack(chunks)
        np.testing.assert_array_equal(arrays["mask"].sum(axis=1), [len(one) for one in chunks])


def consecutive(count: int = 2, *, seed: int = 1, steps: int = 5) -> list[Fragment]:
    """Return fragments of one slot, the border inside an episode."""
    whole = trajectory(seed, count * steps)
    for name in ("terminated", "truncated"):
        whole.arrays[name][:] = False
    whole.arrays["first"][:] = np.arange(count * steps) == 0
    empty = whole.arrays | {
        "final_step": whole.arrays["final_step"][:0],
        "final_obs": whole.arrays["final_obs"][:0],
        "episode_index": np.zeros(count * steps, dtype=np.int32),
    }
    whole = whole._replace(arrays=empty)
    return [fragment_of(whole, steps * n, steps * (n + 1), number=n) for n in range(count)]


@pytest.mark.parametrize(
    "change",
    [{"number": 2}, {"contiguous": False}, {"epoch": 2}, {"slot": "w0-0@u"}],
    ids=lambda change: next(iter(change)),
)
def test_a_fragment_that_does_not_continue_another_begins_a_chunk(change: dict[str, Any]) -> None:
    one, other = consecutive()

    chunks = join(views([replace(other, **change), one]))

    assert sorted(chunk.items for chunk in chunks) == [(0,), (1,)]
    assert [len(chunk) for chunk in chunks] == [5, 5]
    assert len(join(views([other, one]))) == 1


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda one, other: [one, other, one],
            "fragment 0 of slot w0-0@t occurs twice, as items 0 and 2",
        ),
        (
            lambda one, other: [one, replace(other, environment="gymnasium:Acrobot-v1")],
            "CartPole-v1' and 'gymnasium:Acrobot-v1', one slot must have one environment",
        ),
        (lambda one, other: [one, replace(other, worker="w1")], "worker: fragments 0 and 1"),
        (
            lambda one, other: [one, with_arrays(other, obs=unpack_array(one.arrays["obs"]))],
            "with fragment 0, but its first observation is not the next_obs there",
        ),
        (
            lambda one, other: [one, with_arrays(other, obs=np.zeros((5, 7), np.float32))],
            "obs: fragment 1 .* first observation is not the next_obs",
        ),
        (
            lambda one, other: [one, with_arrays(other, first=np.arange(5) == 0)],
            "first: fragment 1 .* it begins an episode before the end of the last one",
        ),
        (
            lambda one, other: [with_arrays(one, terminated=np.arange(5) == 4), other],
            "first: fragment 1 .* it continues an episode that has ended",
        ),
        (
            lambda one, other: [one, with_arrays(other, action=np.zeros((5, 2)))],
            r"action: steps of shapes \[\(\), \(2,\)\] cannot be joined",
        ),
    ],
)
def test_contradictions_are_refused(
    spoil: Callable[[Fragment, Fragment], list[Fragment]], message: str
) -> None:
    with pytest.raises(InvalidMessageError, match=message):
        join(views(spoil(*consecutive())))


def test_chunks_stack_as_fragments_do() -> None:
    ended = trajectory(3, 9)
    fragments = [
        *consecutive(3),
        fragment_of(ended, 0, 9, number=0, slot="w0-1@t"),
    ]

    chunks = join(views(fragments))
    arrays = stack(chunks)
    alone = batch_of(fragments[3:], policy_step=0).stack()

    assert arrays["obs"].shape == (2, 15, OBS)
    assert arrays["mask"].sum(axis=1).tolist() == [15, 9]
    assert arrays["item"][:, -1].tolist() == [2, 3]
    for name in ("reward", "first", "terminated", "truncated", "info.cost"):
        assert not arrays[name][1, 9:].any()
    np.testing.assert_array_equal(arrays["obs"][1, 9:], np.repeat(ended.arrays["obs"][8:9], 6, 0))
    assert (arrays["final_fragment"] == 1).all()
    assert arrays.keys() - {"item"} == alone.keys()
    for name, array in alone.items():
        assert arrays[name].dtype == array.dtype, name
        if name not in {"final_fragment", "final_obs", "final_step"}:
            steps = arrays[name][1:, :9] if name in (*PER_STEP, "mask") else arrays[name][1:]
            np.testing.assert_array_equal(steps, array, err_msg=name)


def test_padding_of_a_stack_changes_no_return() -> None:
    short, long = trajectory(5, 7), trajectory(6, 30)
    fragments = [
        fragment_of(short, 0, 7, number=0, slot="a"),
        fragment_of(long, 0, 11, number=0, slot="b"),
        fragment_of(long, 11, 30, number=1, slot="b"),
    ]

    arrays = stack(join(views(fragments)))
    learned = vtrace(steps_of(arrays, np.float32), log_ratio_of(arrays, np.float32), gamma=0.9)

    for row, whole in enumerate((short, long)):
        alone = unbroken(whole)
        expected = vtrace(steps_of(alone, np.float32), log_ratio_of(alone, np.float32), gamma=0.9)
        real = len(whole.states)
        np.testing.assert_array_equal(learned.targets[row, :real], expected.targets[0])
        np.testing.assert_array_equal(learned.advantages[row, :real], expected.advantages[0])
        assert not learned.advantages[row, real:].any()


def test_arrays_of_only_some_fragments_are_left_out() -> None:
    one, other = consecutive()
    both = [with_arrays(fragment, extra=np.ones((5, 2))) for fragment in (one, other)]

    assert "extra" not in join(views([both[0], other]))[0].arrays
    (chunk,) = join(views(both))
    assert chunk.arrays["extra"].shape == (10, 2)
    apart = replace(other, slot="w0-1@t", contiguous=False)
    assert "extra" not in stack(join(views([both[0], apart])))


def test_values_of_info_that_a_fragment_lacks_are_nan_in_its_steps() -> None:
    one, other = (
        replace(each, arrays={name: a for name, a in each.arrays.items() if "info" not in name})
        for each in consecutive()
    )
    speeds = with_arrays(other, **{"info.speed": np.arange(5, dtype=np.float32)})
    apart = replace(one, slot="w0-1@t")

    (chunk,) = join(views([one, speeds]))
    arrays = stack(join(views([one, speeds, apart])))
    by_themselves = stack([chunk, *join(views([apart]))])

    expected = [np.nan] * 5 + [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(chunk.arrays["info.speed"], np.array(expected, np.float32))
    for found in (arrays, by_themselves):
        assert found["info.speed"].dtype == np.float32
        padded = [*[np.nan] * 5, *[0] * 5]
        np.testing.assert_array_equal(found["info.speed"], [expected, padded])


def test_composed_observations_are_joined_part_by_part() -> None:
    def in_parts(fragment: Fragment) -> Fragment:
        arrays = dict(fragment.arrays)
        for name in ("obs", "next_obs", "final_obs"):
            if name in arrays:
                array = unpack_array(arrays.pop(name))
                arrays[f"{name}.near"] = pack_array(array[..., :1])
                arrays[f"{name}.far.away"] = pack_array(array[..., 1:])
        return replace(fragment, arrays=arrays)

    whole = trajectory(2, 20)
    fragments = [in_parts(fragment_of(whole, 10 * n, 10 * n + 10, number=n)) for n in range(2)]

    arrays = stack(join(views(fragments)))

    np.testing.assert_array_equal(arrays["obs.near"][0], whole.arrays["obs"][:, :1])
    np.testing.assert_array_equal(arrays["next_obs.far.away"][0], whole.arrays["next_obs"][1:])
    np.testing.assert_array_equal(arrays["final_obs.near"], whole.arrays["final_obs"][:, :1])
    moved = with_arrays(fragments[1], **{"obs.near": np.full((10, 1), 9, np.float32)})
    with pytest.raises(InvalidMessageError, match=r"obs.near: .* is not the next_obs.near"):
        join(views([fragments[0], moved]))


def test_an_empty_batch_has_no_chunks() -> None:
    assert join([]) == []
    with pytest.raises(InvalidMessageError, match="no chunks to stack, at least 1 required"):
        stack([])


def test_a_chunk_of_one_is_its_fragment() -> None:
    padded = make_fragment(ends={4: "truncated"}, real=5)

    (chunk,) = join(views([padded]))

    assert len(chunk) == 5
    assert chunk.fragment_starts.tolist() == chunk.version_starts.tolist() == [0]
    assert chunk.arrays["final_step"].tolist() == [4]
    assert not chunk.contiguous


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_a_fleets_fragments_are_joined_without_a_break(kind: str) -> None:
    config = run_config.parse(
        {
            "environment": {"spec": "rolldeck:recall-v0", "kwargs": {"cues": 4, "delay": 3}},
            "policy": {"kind": kind, "hidden_sizes": [8], "recurrent_units": 8},
            "fleet": {"fragment_length": 7},
            "buffer": {"batch_size": 3},
        }
    )
    policy = policy_for(run_config.to_builtins(config))
    fleet = LockstepFleet(config, seed=0)
    fleet.policy.load({name: x.numpy() for name, x in policy.state_dict().items()})
    fragments = [one for version in range(6) for one in fleet.fragments(version)]

    chunks: list[Chunk] = join(batch_of(fragments, policy_step=6).fragments)

    assert [(chunk.slot, len(chunk), chunk.numbers) for chunk in chunks] == [
        (f"s{slot}", 42, range(6)) for slot in range(3)
    ]
    assert all(chunk.version_starts.tolist() == [0, 7, 14, 21, 28, 35] for chunk in chunks)
    arrays = stack(chunks)
    steps = transitions(
        arrays,
        values=arrays["value"],
        last_values=np.zeros(3, np.float32),
        final_values=np.zeros(len(arrays["final_obs"]), np.float32),
    )
    inside = ~steps.ended[:, :-1]
    np.testing.assert_array_equal(steps.next_values[:, :-1][inside], arrays["value"][:, 1:][inside])
