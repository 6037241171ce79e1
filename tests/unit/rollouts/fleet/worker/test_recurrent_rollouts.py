"""A recurrent policy's steps match one pass over the whole sequence."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from manual_turns import Rollout

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
