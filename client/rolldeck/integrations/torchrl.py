"""Batches of a step run for training loops of torchrl 0.14.

::

    collector = RunCollector(Trainer(url, "demo", token), policy)  # a module
    for data in collector:
        learn(data)
        collector.update_policy_weights_(policy)

The fleet of the run acts, so torchrl steps no environment. `update_policy_weights_` publishes the
weights, then acknowledges the batches that were yielded: an acknowledged batch is part of a
published version.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torch import nn
from torchrl.collectors import BaseCollector
from torchrl.weight_update import TransportBackend, WeightSyncScheme

from rolldeck.batches import Batch
from rolldeck.client import ENDED
from rolldeck.torch_tensors import tensors_of
from rolldeck.trainer import MAX_HELD, Trainer, ack_or_log
from rolldeck.wire import INFO

__all__ = ["PublishedWeights", "RunCollector", "fragments_tensordict"]

OBS, FINAL_OBS, NEXT_OBS, STATE = "obs", "final_obs", "next_obs", "in_state."
PER_STEP = {"action": "action", "behavior_logprob": "action_log_prob", "value": "behavior_value"}
"""Arrays with a value per step, and their keys; those that fragments lack are left out."""


class PublishedWeights(WeightSyncScheme):
    """Weight synchronization with the fleet of a run: each `send` publishes a version.

    The workers of the run receive it through the platform, so there is no receiving side here.
    """

    def __init__(self, trainer: Trainer, *, step: int = -1) -> None:
        """Configure the scheme without sending a request.

        Args:
            trainer: The registered trainer of the run.
            step: Version that was published last; -1 for none.
        """
        super().__init__("tensordict")
        self._trainer = trainer
        self.step = step

    def create_transport(self, **_: Any) -> TransportBackend:
        """Return the transport to the platform."""
        return _Publication(self)

    def publish(self, weights: Any) -> None:
        """Publish the next version.

        Args:
            weights: Tensors by name, nested or not. The names, joined by dots, are those of the
                run's policy.

        Raises:
            TypeError: If there are none.
            RolldeckError: The refusal of the platform.
        """
        if not isinstance(weights, Mapping | TensorDictBase):
            raise TypeError(f"weights: expected a module or tensors by name, not {type(weights)}")
        tensors = TensorDict(dict(weights)).flatten_keys(".").to_dict()
        self._trainer.publish_weights(tensors, step=self.step + 1)
        self.step += 1

    def _init_on_sender_impl(
        self, *, model_id: str = "policy", context: Any = None, **_: Any
    ) -> None:
        self.model_id = model_id
        if context is not None:
            self.context = context
        self._register_worker_sender(worker_idx=0)

    def _init_on_receiver_impl(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("workers of a run receive weights through the platform")


class _Publication:
    """Transport of :class:`PublishedWeights`."""

    def __init__(self, scheme: PublishedWeights) -> None:
        self._scheme = scheme

    def send_weights(self, weights: Any) -> None:
        """Publish weights."""
        self._scheme.publish(weights)

    def receive_weights(self, *_: Any, **__: Any) -> None:
        """Receive nothing."""

    def check_connection(self) -> bool:
        """Return True: each request connects."""
        return True

    def setup_connection_and_weights_on_sender(self) -> None:
        """Send nothing: `RunCollector` publishes the first version."""


class RunCollector(BaseCollector):
    """Collector whose data are the batches of a run, as :func:`fragments_tensordict`."""

    def __init__(
        self,
        trainer: Trainer,
        policy: nn.Module | Callable[[Mapping[str, Any]], nn.Module],
        *,
        resume: bool = False,
        total_frames: int = -1,
        device: str | torch.device = "cpu",
    ) -> None:
        """Register the trainer, and publish the policy as version 0.

        Args:
            trainer: Unregistered trainer of the run. The collector closes it.
            policy: Module with the parameter names and shapes of the run's policy, or a function
                that returns it for the configuration of the run.
            resume: Continue in the run's present epoch: load the weights that were published last
                into `policy`, and get the unacknowledged batches again.
            total_frames: Real steps after which the iteration ends; -1 for the end of the run.
            device: Device of the data.

        Raises:
            ValueError: If `total_frames` is 0 or below -1, or the run has no steps.
            RolldeckError: The refusal of a request.
        """
        super().__init__()
        if total_frames < -1 or total_frames == 0:
            raise ValueError(f"total_frames is {total_frames}; it must be positive, or -1")
        registration = trainer.register(resume=resume)
        if "environment" not in registration.config:
            raise ValueError(f"run {trainer.run} has no steps: its items are trajectory groups")
        self.config = registration.config
        """Configuration of the run."""
        self.total_frames, self.requested_frames_per_batch = total_frames, 0
        self.policy = policy if isinstance(policy, nn.Module) else policy(self.config)
        """The module whose weights are published."""
        self._trainer, self._device = trainer, torch.device(device)
        self._held: list[Batch] = []
        self._is_closed = False
        resumes = resume and registration.policy_step >= 0
        self._scheme = PublishedWeights(trainer, step=registration.policy_step if resumes else -1)
        self._scheme.init_on_sender(model_id="policy", context=self)
        self._weight_sync_schemes = {"policy": self._scheme}
        if resumes:
            _, arrays = trainer.current_weights()
            tensors = {name: torch.tensor(array) for name, array in arrays.items()}
            self.policy.load_state_dict(tensors)
        else:
            self._scheme.publish(TensorDict.from_module(self.policy))
        self._scheme.connect()

    @property
    def policy_step(self) -> int:
        """Version that was published last."""
        return self._scheme.step

    def get_model(self, model_id: str) -> nn.Module:
        """Return the policy; see torchrl's weight synchronization."""
        if model_id != "policy":
            raise KeyError(f"model_id is {model_id!r}; a run has one model, 'policy'")
        return self.policy

    def iterator(self) -> Iterator[TensorDict]:
        """Yield the batches of the run until it ends.

        Raises:
            RuntimeError: If 16 batches were yielded without a call of `update_policy_weights_`.
        """
        frames = 0
        while not self._is_closed and not 0 < self.total_frames <= frames:
            if len(self._held) == MAX_HELD:
                raise RuntimeError(
                    f"{MAX_HELD} batches are held and none was published: call "
                    "update_policy_weights_(policy) after the optimizer steps of a batch"
                )
            batch = self._trainer.next_batch(holding=self._held)
            if batch is None:
                if self._trainer.status() in ENDED:
                    return
                continue
            self._held.append(batch)
            data = fragments_tensordict(batch).to(self._device)
            self.requested_frames_per_batch = data.numel()
            frames += int(data["collector", "mask"].sum())
            yield data

    def log_metrics(self, metrics: Mapping[str, float]) -> None:
        """Store metrics of the training, at the version that was published last."""
        self._trainer.log_metrics(dict(metrics), step=max(self.policy_step, 1))

    def shutdown(self, *_: Any, **__: Any) -> None:
        """Close the trainer; unacknowledged batches will be served again."""
        if not self._is_closed:
            self._is_closed = True
            self._trainer.close()

    def set_seed(self, seed: int, static_seed: bool = False) -> NoReturn:
        """Raise: the `seed` of the run's configuration seeds its environments."""
        raise NotImplementedError("set `seed` in the configuration of the run")

    def state_dict(self) -> "OrderedDict[str, Any]":
        """Return an empty state: the platform stores it, and `resume` continues."""
        return OrderedDict()

    def load_state_dict(self, state_dict: "OrderedDict[str, Any]") -> None:
        """Change nothing; see `state_dict`."""

    def _send_weights_scheme(self, **named: Any) -> None:
        super()._send_weights_scheme(**named)
        while self._held:
            ack_or_log(self._trainer, self._held.pop(0))


def fragments_tensordict(batch: Batch) -> TensorDict:
    """Return a batch of N fragments of T steps as torchrl's transitions, ``[N, T]``.

    ``observation``, ``action``, ``action_log_prob [N, T]`` of the acting policy, ``is_init``,
    ``policy_version``, ``("collector", "mask")``, and below ``next``: ``observation``, ``reward``,
    ``done``, ``terminated``, ``truncated``, all ``[N, T, 1]`` where not named otherwise, and
    ``("info", key) [N, T]``. Parts of a composed observation are keys below ``observation``.
    ``in_state`` has the recurrent states before the first step, and zeros after it.

    The successor in the last step of an episode is its last observation. A truncated step without
    one keeps its own observation, and is masked like padding. Padding ends its episodes, and must
    not be trained on: ``data[data["collector", "mask"]]`` has the real steps.

    Raises:
        InvalidMessageError: As :meth:`rolldeck.batches.Batch.stack`.
    """
    arrays = batch.stack()
    mask = arrays["mask"]
    steps = {name: key for name, key in PER_STEP.items() if name in arrays}
    is_unknown = arrays["truncated"] & ~arrays["terminated"]
    is_unknown[arrays["final_fragment"], arrays["final_step"]] = False
    terminated = arrays["terminated"] | ~mask
    done = terminated | arrays["truncated"]
    flat: dict[str | tuple[str, ...], NDArray[Any]] = {
        **{key: arrays[name] for name, key in steps.items()},
        "is_init": arrays["first"][..., None],
        "policy_version": arrays["policy_step"][..., None],
        ("collector", "mask"): mask & ~is_unknown,
        ("next", "reward"): arrays["reward"][..., None],
        ("next", "done"): done[..., None],
        ("next", "terminated"): terminated[..., None],
        ("next", "truncated"): arrays["truncated"][..., None],
    }
    for name in [name for name in arrays if name.startswith(INFO)]:
        flat["next", "info", name.removeprefix(INFO)] = arrays[name]
    for name in [name for name in arrays if name == OBS or name.startswith(f"{OBS}.")]:
        part = name.removeprefix(OBS)
        key = ("observation", *part.split(".")[1:])
        obs = flat[key] = arrays[name]
        following = flat["next", *key] = np.roll(obs, -1, axis=1)
        following[np.arange(len(mask)), mask.sum(axis=1) - 1] = arrays[f"{NEXT_OBS}{part}"]
        following[done] = obs[done]
        following[arrays["final_fragment"], arrays["final_step"]] = arrays[f"{FINAL_OBS}{part}"]
    for name in [name for name in arrays if name.startswith(STATE)]:
        state = np.zeros((*mask.shape, *arrays[name].shape[1:]), dtype=arrays[name].dtype)
        state[:, 0] = arrays[name]
        flat["in_state", name.removeprefix(STATE)] = state
    found = TensorDict(batch_size=mask.shape)
    for place, array in flat.items():
        found[place] = tensors_of({"array": array})["array"]
    return found
