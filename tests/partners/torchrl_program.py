"""Programs with torchrl, which run in its environment with their settings in the first argument.

They print one JSON object per line.
"""

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torchrl.objectives.value.functional import generalized_advantage_estimate

from examples.torchrl_ppo import Learner, policy_for
from rolldeck.batches import Batch
from rolldeck.integrations.torchrl import PublishedWeights, RunCollector, fragments_tensordict
from rolldeck.trainer import MAX_HELD, Trainer, TrainerRegistration
from rolldeck.training.returns import gae, transitions

GAMMA, LAMBDA = 0.9, 0.8


def emit(**fields: Any) -> None:
    """Print a line for the test."""
    sys.stdout.write(f"{json.dumps(fields)}\n")
    sys.stdout.flush()


def advantages(settings: dict[str, Any]) -> None:
    """Compare the advantages of torchrl with those of the client, and print the transitions."""
    batch = Batch.decode(Path(settings["batch"]).read_bytes())
    arrays, data = batch.stack(), fragments_tensordict(batch)
    weights = np.asarray(np.random.default_rng(0).normal(size=arrays["obs"].shape[-1]), np.float32)
    values = {name: arrays[name] @ weights for name in ("obs", "next_obs", "final_obs")}
    ours = gae(
        transitions(
            arrays,
            values=values["obs"],
            last_values=values["next_obs"],
            final_values=values["final_obs"],
        ),
        gamma=GAMMA,
        lam=LAMBDA,
    )
    theirs, _ = generalized_advantage_estimate(
        GAMMA,
        LAMBDA,
        (data["observation"] @ torch.from_numpy(weights))[..., None],
        (data["next", "observation"] @ torch.from_numpy(weights))[..., None],
        data["next", "reward"],
        data["next", "done"],
        data["next", "terminated"],
    )
    mask = data["collector", "mask"]
    emit(
        shape=list(data.shape),
        real=int(mask.sum()),
        difference=float((theirs[..., 0] - torch.from_numpy(ours.advantages))[mask].abs().max()),
        spread=float(theirs[mask].std()),
        starts=data["is_init"][..., 0].tolist(),
        versions=data["policy_version"][..., 0].tolist(),
        kinds={name: str(data[name].dtype) for name in ("action", "action_log_prob")},
        costs=data["next", "info", "cost"].nan_to_num(nan=-1.0).tolist(),
    )


def train(settings: dict[str, Any]) -> None:
    """Train, and print the digest of each batch before the step that uses it."""
    trainer = Trainer(settings["url"], settings["run"], settings["token"])
    collector = RunCollector(trainer, policy_for, resume=settings["resume"])
    first = next(iter(collector.policy.state_dict().values()))
    emit(start=collector.policy_step, weights=_digest(first))
    learner = Learner(collector.policy)
    for place, data in enumerate(collector, start=1):
        learner.learn(data, collector.policy_step + 1)
        emit(batch=_digest(*(data[name] for name in ("observation", "action", "action_log_prob"))))
        if place == settings["hangs_at"]:
            time.sleep(600)
        collector.update_policy_weights_(collector.policy)
        first = next(iter(collector.policy.state_dict().values()))
        emit(published=collector.policy_step, weights=_digest(first))
        if place == settings["batches"]:
            break
    collector.shutdown()


class _Trainer:
    """Trainer without a platform, whose batches are all the same."""

    run = "held"

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def register(self, **_: Any) -> TrainerRegistration:
        config = {"environment": {}}
        return TrainerRegistration(uuid=1, epoch=1, policy_step=-2, batch_size=1, config=config)

    def next_batch(self, **_: Any) -> Batch:
        return self._batch

    def publish_weights(self, *_: Any, **__: Any) -> None:
        """Publish nothing."""

    def close(self) -> None:
        """Close nothing."""


def refusals(settings: dict[str, Any]) -> None:
    """Print the error of each wrong use."""
    connected = (settings["url"], settings["run"], settings["token"])
    module = torch.nn.Linear(2, 1)
    held = _Trainer(Batch.decode(Path(settings["batch"]).read_bytes()))
    collector = RunCollector(held, module)
    uses = {
        "total_frames": lambda: RunCollector(held, module, total_frames=0),
        "kind": lambda: RunCollector(Trainer(*connected), module),
        "held": lambda: [None for _ in collector],
        "weights": lambda: PublishedWeights(held).publish(3),
        "model_id": lambda: collector.update_policy_weights_(module, model_id="critic"),
        "seed": lambda: collector.set_seed(1),
        "receiver": lambda: PublishedWeights(held).init_on_receiver(model_id="policy"),
    }
    for name, use in uses.items():
        try:
            use()
        except Exception as error:  # noqa: BLE001 the test compares the texts
            emit(use=name, error=f"{type(error).__name__}: {error}", most=MAX_HELD)
        else:
            emit(use=name, error="")
    nested = TensorDict({"a": {"weight": torch.ones(1)}})
    published: dict[str, Any] = {}
    held.publish_weights = lambda tensors, **_: published.update(tensors)
    PublishedWeights(held).publish(nested)
    emit(names=sorted(published))


def _digest(*tensors: torch.Tensor) -> str:
    content = b"".join(tensor.detach().contiguous().numpy().tobytes() for tensor in tensors)
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    {"advantages": advantages, "train": train, "refusals": refusals}[given["program"]](given)
