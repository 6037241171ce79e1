"""Values of `info` that a run stores belong to the step whose action they followed."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from manual_turns import Rollout
from numpy.typing import NDArray

from buffer.ingest.rules.fragments import check
from rolldeck.batches import FragmentView
from rolldeck.wire import Fragment
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import WorkerSettings
from rollouts.fleet.steps.local_rollout import Bound, LocalRollout

SHOWN = Space(kind="box", shape=(4,), dtype="float32")
TAKEN = Space(kind="discrete", shape=(), dtype="int64", choices=2)
NEVER = ["text", "none", "pair", "infinite", "absent"]
KEYS = ["label", "nested.half", "is_odd", "odd", "episode.r", *NEVER]
RolloutOf = Callable[..., Rollout]
LENGTH = 5
ALONE = {"envs_per_worker": 1, "envs_per_process": 1, "inference_batch_size": 1}


@pytest.fixture
def rollout_of(make_worker_settings: Callable[..., WorkerSettings]) -> Iterator[RolloutOf]:
    made: list[Rollout] = []

    def begin(spec: str, kwargs: dict[str, Any] | None = None, **fleet: Any) -> Rollout:
        environment = {"info": KEYS}
        settings = make_worker_settings(
            spec=spec, kwargs=kwargs or {}, environment=environment, fragment_length=LENGTH, **fleet
        )
        made.append(Rollout(settings))
        made[-1].publish(0, SHOWN, TAKEN)
        return made[-1]

    yield begin
    for one in made:
        one.worker.close()


def labels_of(fragment: Fragment) -> NDArray[np.float32]:
    """Check the values of `info` of the real steps, and return their labels."""
    check(fragment)
    view = FragmentView(fragment)
    mask = view["mask"] if "mask" in view else np.ones(fragment.steps, dtype=np.bool_)
    arrays = {name: view[name][mask] for name in view.names if len(view[name]) == len(mask)}
    # The observation before the action has the label of the step before.
    labels = arrays["obs"][:, 0] + 1
    expected = {
        "label": labels,
        "nested.half": labels / 2,
        "is_odd": labels % 2,
        "odd": np.where(labels % 2 == 1, labels, np.nan),
        "episode.r": np.where(arrays["terminated"], totals_of(labels), np.nan),
        **{key: np.full(len(labels), np.nan) for key in NEVER},
    }
    assert {name for name in view.names if name.startswith("info.")} == {
        f"info.{key}" for key in expected
    }
    for key, values in expected.items():
        assert view[f"info.{key}"].dtype == np.float32
        np.testing.assert_array_equal(arrays[f"info.{key}"], values.astype(np.float32), err_msg=key)
        assert not view[f"info.{key}"][~mask].any()
    np.testing.assert_array_equal(arrays["reward"], labels)
    return labels


def totals_of(labels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the sums of the labels of each step's episode up to the step."""
    steps = labels % 100
    return (labels - steps) * steps + steps * (steps + 1) / 2


def drained(rollout: Rollout) -> list[Fragment]:
    rollout.worker.is_paused = True
    rollout.collector.drain()
    rollout.until(lambda: not rollout.collector.being_filled)
    return rollout.fragments


@pytest.mark.parametrize("is_in_worker", [False, True], ids=["process", "worker"])
@pytest.mark.parametrize("spec", ["odd:labelled", "odd:labelled-rows"])
def test_each_step_has_the_values_that_arrived_with_its_reward(
    rollout_of: RolloutOf, spec: str, *, is_in_worker: bool
) -> None:
    rollout = rollout_of(spec, envs_in_worker=is_in_worker)

    # A slot with so few steps is cut before its fragment is full.
    cutter = rollout.collector._cutter
    rollout.until(lambda: len(rollout.fragments) >= 16 and 0 < cutter.made.min() < LENGTH - 1)
    fragments = drained(rollout)

    assert any("mask" in one.arrays for one in fragments)
    for slot in {one.slot for one in fragments}:
        mine = [labels_of(one) for one in fragments if one.slot == slot]
        labels = np.concatenate(mine)
        # Every step of an environment, in order: 101, 102, 103, 201, …
        expected = [100 * e + s for e in range(1, len(labels)) for s in range(1, 3 + e % 3)]
        assert labels.tolist() == expected[: len(labels)]


@pytest.mark.parametrize(
    ("kwargs", "is_in_worker"), [({"exits_at": 302}, False), ({"raises_at": 302}, True)]
)
def test_steps_before_the_loss_of_an_environment_keep_their_values(
    rollout_of: RolloutOf, kwargs: dict[str, int], *, is_in_worker: bool
) -> None:
    rollout = rollout_of("odd:labelled", kwargs, envs_in_worker=is_in_worker, **ALONE)

    rollout.until(lambda: rollout.worker.is_broken)

    found = np.concatenate([labels_of(one) for one in rollout.fragments])
    # An environment is built six times, and each makes eight steps.
    once = [101, 102, 103, 201, 202, 203, 204, 301]
    assert found.tolist() == once * (len(found) // len(once))
    assert len(found) == 6 * len(once)


def test_outcomes_of_dropped_steps_store_no_values(rollout_of: RolloutOf) -> None:
    rollout = rollout_of("odd:labelled")
    rollout.until(lambda: rollout.worker.is_stepping and rollout.collector.buffered_steps > 3)
    rollout.collector.set_command(epoch=2, policy_step=0, begins_fragments=True)
    rollout.collector.drop_stale_steps()
    before = len(rollout.fragments)

    rollout.until(lambda: len(rollout.fragments) >= before + 8)

    assert rollout.collector.dropped_steps["new_epoch"] > 3
    for fragment in rollout.fragments:
        labels_of(fragment)


def test_steps_without_a_number_are_counted_by_key(rollout_of: RolloutOf) -> None:
    rollout = rollout_of("odd:labelled", **ALONE)
    rollout.until(lambda: len(rollout.fragments) >= 4)
    steps = rollout.collector.env_steps

    window = rollout.collector.pop_info()

    labels = np.concatenate([labels_of(one) for one in rollout.fragments])
    assert steps == len(labels)
    missing = {one.name: (one.count, one.total) for one in window.sums if one.scope == "missing"}
    ended = sum(FragmentView(one)["terminated"].sum() for one in rollout.fragments)
    assert missing == {
        **dict.fromkeys(["label", "nested.half", "is_odd"], (steps, 0)),
        "odd": (steps, (labels % 2 == 0).sum()),
        "episode.r": (steps, steps - ended),
        **dict.fromkeys(NEVER, (steps, steps)),
    }
    assert not [one for one in rollout.collector.pop_info().sums if one.scope == "missing"]


def test_fragments_of_a_run_without_keys_have_no_values(
    make_worker_settings: Callable[..., WorkerSettings],
) -> None:
    rollout = Rollout(make_worker_settings(spec="odd:labelled", fragment_length=LENGTH))
    try:
        rollout.publish(0, SHOWN, TAKEN)
        rollout.until(lambda: len(rollout.fragments) >= 4)
        window = rollout.collector.pop_info()
    finally:
        rollout.worker.close()

    names = {name for one in rollout.fragments for name in one.arrays}
    assert not [name for name in names if name.startswith("info")]
    assert "missing" not in {one.scope for one in window.sums}


def test_a_local_rollout_warns_of_keys_without_numbers(
    make_worker_settings: Callable[..., WorkerSettings], tmp_path: Any
) -> None:
    settings = make_worker_settings(
        spec="odd:labelled", environment={"info": ["label", "episode.r", "lable"]}
    )
    warnings: list[str] = []
    fragments: list[bytes] = []
    rollout = LocalRollout(
        settings.fleet.config,
        bound=Bound(episodes=3),
        deliver=fragments.append,
        warn=warnings.append,
        log_root=tmp_path,
    )

    result = rollout.run()

    assert warnings == [f"environment.info: 'lable' had no number in {result.env_steps} env steps"]
