"""Rollouts with continuous actions, recurrent state and every kind of environment."""

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from manual_turns import Rollout

from buffer.ingest.rules import fragments as fragment_rules
from examples.ppo_continuous import GaussianPolicy
from rolldeck.wire import Fragment, unpack_array
from rollouts.fleet.policies.base import head_for
from rollouts.fleet.policies.networks import RecurrentPolicy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import WorkerSettings

MakeSettings = Callable[..., WorkerSettings]

SHOWN = Space(kind="box", shape=(3,), dtype="float32")
TAKEN = {
    "choice": Space(kind="discrete", shape=(), dtype="int64", choices=3),
    "box": Space(kind="box", shape=(2,), dtype="float32", low=[-1.0] * 2, high=[1.0] * 2),
    "choices": Space(kind="multi_discrete", shape=(2,), dtype="int64", each_choices=[2, 3]),
}
BOX = Space(kind="box", shape=(2,), dtype="float32", low=[-1.0] * 2, high=[1.0] * 2)
STAND_INS = Path(__file__).resolve().parents[4] / "stand_ins"
CHOICE = Space(kind="discrete", shape=(), dtype="int64", choices=2)


@pytest.fixture
def rollout(
    make_worker_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Rollout]]:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_MODULES", "random_walks")
    made: list[Rollout] = []

    def begin(form: str, **kwargs: Any) -> Rollout:
        policy = {"kind": "gru", "hidden_sizes": [8], "recurrent_units": 16}
        settings = make_worker_settings(spec=f"walk:{form}", kwargs=kwargs, policy=policy)
        made.append(Rollout(settings))
        made[-1].publish(0, SHOWN, TAKEN[form])
        return made[-1]

    yield begin
    for one in made:
        one.worker.close()


def arrays_of(fragment: Fragment) -> dict[str, torch.Tensor]:
    return {
        name: torch.from_numpy(np.array(unpack_array(array)))
        for name, array in fragment.arrays.items()
    }


def in_one_pass(
    module: RecurrentPolicy, fragment: Fragment, action: Space
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logprobs and values ``[T]`` of a whole fragment, from its state before step 0."""
    arrays = arrays_of(fragment)
    with torch.no_grad():
        outputs, values, _ = module(
            arrays["obs"][:, None], arrays["in_state.hidden"][None], arrays["first"][:, None]
        )
        head = head_for(action)
        log_std = module.log_std if head.is_continuous else None
        return head.logprob(outputs[:, 0], log_std, arrays["action"]), values[:, 0]


@pytest.mark.parametrize("form", list(TAKEN))
def test_every_fragment_equals_one_pass_over_its_sequence(
    rollout: Callable[..., Rollout], form: str
) -> None:
    r = rollout(form)
    r.until(lambda: len(r.fragments) >= 60)

    began = 0
    for fragment in r.fragments:
        arrays = arrays_of(fragment)
        logprobs, values = in_one_pass(r.modules[0], fragment, TAKEN[form])
        assert torch.allclose(arrays["behavior_logprob"], logprobs, rtol=0, atol=1e-5)
        assert torch.allclose(arrays["value"], values, rtol=0, atol=1e-5)
        began += int(arrays["first"][1:].sum())
    # Otherwise the state was never reset inside a fragment and the test proves little.
    assert began > 20


def test_numbers_outside_the_bounds_keep_their_own_logprob(
    rollout: Callable[..., Rollout],
) -> None:
    r = rollout("box")
    r.until(lambda: len(r.fragments) >= 10)

    # The environment gets clipped actions; fragments contain the sampled ones.
    assert max(float(arrays_of(f)["action"].abs().max()) for f in r.fragments) > 1


def test_the_state_continues_from_fragment_to_fragment(
    rollout: Callable[..., Rollout],
) -> None:
    r = rollout("choice", ends=0.05)
    r.until(lambda: len(r.of_one_slot()) >= 12)

    carried = 0
    for before, after in pairwise(r.of_one_slot()):
        earlier, later = arrays_of(before), arrays_of(after)
        with torch.no_grad():
            *_, hidden = r.modules[0](
                earlier["obs"][:, None],
                earlier["in_state.hidden"][None],
                earlier["first"][:, None],
            )
        begins = bool(later["first"][0])
        expected = torch.zeros(16) if begins else hidden[0]
        assert torch.allclose(later["in_state.hidden"], expected, atol=1e-5)
        carried += not begins
    assert carried > 3


def test_new_weights_keep_the_state_of_every_slot(rollout: Callable[..., Rollout]) -> None:
    r = rollout("choice", ends=0.0)
    for step in range(1, 8):
        steps = r.collector.env_steps
        r.until(lambda steps=steps: r.collector.env_steps > steps + 21)
        r.publish(step, SHOWN, TAKEN["choice"])
    r.until(lambda: r.fragments[-1].version_min == 7)

    changed_inside = 0
    for fragment in r.of_one_slot():
        arrays = arrays_of(fragment)
        hidden = arrays["in_state.hidden"][None]
        for at, version in enumerate(arrays["policy_step"].tolist()):
            with torch.no_grad():
                _, value, hidden = r.modules[version](
                    arrays["obs"][None, at : at + 1], hidden, arrays["first"][None, at : at + 1]
                )
            assert arrays["value"][at] == pytest.approx(float(value), abs=1e-5)
        changed_inside += fragment.version_min < fragment.version_max
    assert changed_inside >= 2


def test_a_rebuilt_environment_starts_with_an_empty_state(
    rollout: Callable[..., Rollout],
) -> None:
    r = rollout("choice", ends=0.0, raises=0.02)
    r.until(lambda: sum(slot.restarts for slot in r.worker.reports()) >= 2)
    r.until(lambda: any(arrays_of(fragment)["first"][1:].any() for fragment in r.fragments))

    broken_off = 0
    for fragment in r.fragments:
        arrays = arrays_of(fragment)
        _, values = in_one_pass(r.modules[0], fragment, TAKEN["choice"])
        assert torch.allclose(arrays["value"], values, rtol=0, atol=1e-5)
        if arrays["first"][0]:
            assert not arrays["in_state.hidden"].any()
        broken_off += int(arrays["first"][1:].sum())
    assert broken_off > 0


def test_one_pass_equals_the_recurrence_of_pytorch() -> None:
    module = RecurrentPolicy(3, 2, hidden_sizes=[8], recurrent_units=16)
    reference = torch.nn.GRU(8, 16)
    names = {f"{name}_l0": value for name, value in module.memory.state_dict().items()}
    reference.load_state_dict(names)
    obs, hidden = torch.randn(20, 5, 3), torch.randn(5, 16)
    first = torch.rand(20, 5) < 0.2

    with torch.no_grad():
        outputs, _, last = module(obs, hidden, first)
        for slot in range(5):
            state, stepwise = hidden[None, slot : slot + 1], []
            for at in range(20):
                state = torch.zeros_like(state) if first[at, slot] else state
                out, state = reference(module.encoder(obs[at : at + 1, slot : slot + 1]), state)
                stepwise.append(module.policy_head(out[0, 0]))
            assert torch.allclose(outputs[:, slot], torch.stack(stepwise), atol=1e-5)
            assert torch.allclose(last[slot], state[0, 0], atol=1e-5)


def test_a_fragment_has_the_sampled_action_and_its_density(
    make_worker_settings: Callable[..., WorkerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_MODULES", "random_walks")
    r = Rollout(make_worker_settings(spec="walk:box", policy={"hidden_sizes": [8]}))
    try:
        r.publish(0, SHOWN, BOX)
        # This environment raises when an action is out of its bounds.
        r.until(lambda: len(r.fragments) >= 8)
        assert not any(slot.error for slot in r.worker.reports())
    finally:
        r.worker.close()

    actions, obs, stored = (
        np.stack([unpack_array(fragment.arrays[name]) for fragment in r.fragments])
        for name in ("action", "obs", "behavior_logprob")
    )
    # With a standard deviation of 1, every third number exceeds ±1.
    assert (np.abs(actions) > 1).mean() > 0.1
    trainer = GaussianPolicy(3, 2, [8])
    trainer.load_state_dict(r.modules[0].state_dict())
    with torch.no_grad():
        means, _ = trainer(torch.from_numpy(obs))
        density = trainer.logprob(means, torch.from_numpy(actions))
    np.testing.assert_allclose(density, stored, atol=1e-4)


@pytest.fixture
def rollout_of(make_worker_settings: MakeSettings) -> Iterator[Callable[..., Rollout]]:
    made: list[Rollout] = []

    def begin(spec: str, **changes: Any) -> Rollout:
        made.append(Rollout(make_worker_settings(spec=spec, **changes)))
        return made[-1]

    yield begin
    for one in made:
        one.worker.close()


def test_a_registered_class_is_rolled_out(
    rollout_of: Callable[..., Rollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", "module:my_lab:Maze")
    r = rollout_of("module:my_lab:Maze")
    r.publish(0, Space(kind="box", shape=(2,), dtype="float32"), CHOICE)

    r.until(lambda: len(r.fragments) >= 4)

    assert r.fragments[0].environment == "module:my_lab:Maze"


def test_an_unregistered_class_fails_its_slots_with_the_remedy(
    rollout_of: Callable[..., Rollout],
) -> None:
    r = rollout_of("module:my_lab:Maze")

    r.until(lambda: all(slot.error for slot in r.worker.reports()))

    for slot in r.worker.reports():
        assert "administrator must add it to ROLLDECK_ENVIRONMENTS" in slot.error


@pytest.mark.parametrize("kind", ["mlp", "gru"])
def test_the_recall_task_is_rolled_out_to_the_end(
    rollout_of: Callable[..., Rollout], kind: str
) -> None:
    policy = {"kind": kind, "hidden_sizes": [8], "recurrent_units": 4}
    r = rollout_of("rolldeck:recall-v0", kwargs={"delay": 2}, policy=policy)
    r.publish(0, Space(kind="box", shape=(3,), dtype="float32"), CHOICE)

    r.until(lambda: len(r.fragments) >= 8)

    arrays = {n: unpack_array(a) for n, a in r.fragments[0].arrays.items()}
    assert arrays["terminated"].tolist() == [False, False, False, True] * 2
    assert set(arrays["reward"][~arrays["terminated"]]) == {0.0}


def test_the_minestudio_interface_is_rolled_out_with_images_and_several_choices(
    rollout_of: Callable[..., Rollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(STAND_INS), os.environ["PYTHONPATH"]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    image = Space(kind="box", shape=(8, 6, 3), dtype="uint8")
    shown = Space(kind="parts", shape=(), dtype="", parts={"image": image})
    taken = Space(kind="multi_discrete", shape=(2,), dtype="int64", each_choices=[8641, 121])
    r = rollout_of(
        "minestudio:MinecraftSim",
        kwargs={"obs_size": [6, 8], "callbacks": {"rewards": 0.5}},
        policy={"kind": "gru", "hidden_sizes": [8], "recurrent_units": 4, "channels": [4]},
    )
    r.publish(0, shown, taken)

    r.until(lambda: len(r.fragments) >= 4)

    for fragment in r.fragments:
        fragment_rules.check(fragment)
    arrays = {n: unpack_array(a) for n, a in r.fragments[0].arrays.items()}
    assert arrays["obs.image"].shape == (8, 8, 6, 3)
    assert arrays["obs.image"].dtype == np.uint8
    assert arrays["action"].shape == (8, 2)
    assert arrays["reward"].tolist() == [0.5] * 8
    assert arrays["terminated"].tolist() == [at == 5 for at in range(8)]


@pytest.mark.parametrize("envs_in_worker", [False, True])
def test_the_time_of_reading_observations_excludes_cutting_and_enqueueing(
    rollout_of: Callable[..., Rollout], *, envs_in_worker: bool
) -> None:
    kwargs = {"delay": 2}
    r = rollout_of("rolldeck:recall-v0", kwargs=kwargs, envs_in_worker=envs_in_worker)
    r.publish(0, Space(kind="box", shape=(3,), dtype="float32"), CHOICE)
    r.deliver_seconds = 0.02

    r.until(lambda: len(r.fragments) >= 40)

    enqueued, read = r.monitor.total("enqueue"), r.monitor.total("recv")
    assert enqueued >= 40 * 0.02
    assert read < enqueued / 2
