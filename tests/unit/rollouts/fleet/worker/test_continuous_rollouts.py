"""Environments get clipped continuous actions; trainers get the sampled ones."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from manual_turns import Rollout

from examples.ppo_continuous import GaussianPolicy
from rolldeck.wire import unpack_array
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import WorkerSettings

SHOWN = Space(kind="box", shape=(3,), dtype="float32")
TAKEN = Space(kind="box", shape=(2,), dtype="float32", low=[-1.0] * 2, high=[1.0] * 2)


def test_a_fragment_has_the_sampled_action_and_its_density(
    make_worker_settings: Callable[..., WorkerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_MODULES", "random_walks")
    r = Rollout(make_worker_settings(spec="walk:box", policy={"hidden_sizes": [8]}))
    try:
        r.publish(0, SHOWN, TAKEN)
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
