"""Create the policy of a run's configuration."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rollouts.fleet.policies.base import (
    TorchPolicy,
    check_weights,
    head_for,
    placed,
    tensor_of,
)
from rollouts.fleet.policies.inputs import NoImages, image_parts, image_shape
from rollouts.fleet.policies.networks import (
    ConvolutionalPolicy,
    ImageEncoder,
    MlpPolicy,
    RecurrentPolicy,
    TorchConvolutional,
    TorchMlp,
    TorchRecurrent,
)
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit, State
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process import extensions
from rollouts.fleet.process.extensions import ExtensionFailed
from runs.config.rules.extensions import BUILT_IN, POLICIES
from runs.config.rules.sections import PolicyConfig

KIND: Final = POLICIES.field


def build(kind: str, kwargs: Mapping[str, Any], observation: Space, action: Space) -> nn.Module:
    """Return the module of a registered kind, with its own initial weights.

    Raises:
        PolicyDoesNotFit: If it is not registered on this machine, cannot be imported, raises, or
            returns something else than a module.
    """
    try:
        module = extensions.build(POLICIES, KIND, kind, kwargs, observation, action)
    except ExtensionFailed as failure:
        if isinstance(failure.__cause__, PolicyDoesNotFit):
            raise failure.__cause__ from None
        raise PolicyDoesNotFit(KIND, failure.message) from failure
    if not isinstance(module, nn.Module):
        raise PolicyDoesNotFit(
            KIND, f"{kind} returned {type(module).__name__}, expected a torch.nn.Module"
        )
    return module


class RegisteredPolicy(TorchPolicy):
    """A registered module in a rollout worker.

    The module has these methods; the last two are optional:

    ``forward(obs, state, first)``
        One step of B slots. `obs` is a tensor ``[B, …]`` of the observation space's type, or a
        dict of one tensor per part. `state` is a dict of tensors ``[B, …]``, `first` is
        ``[B]`` bool: whether the step begins an episode. Returns the outputs ``[B, outputs]``, the
        values ``[B]`` (or None) and the state after the step (a dict).
    ``initial_state(batch)``
        The state of `batch` slots before their first step. Without it, the policy is stateless.
    ``distribution(outputs)``
        A :class:`torch.distributions.Distribution` of actions; deterministic evaluations take its
        `mode`. Without it, the outputs are logits
        of discrete actions, or the means of continuous ones, whose log standard deviation is the
        module's parameter ``log_std``.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        kind: str,
        observation: Space,
        action: Space,
        seed: int,
        device: str = "auto",
        precision: str = "float32",
    ) -> None:
        """Set up the policy without weights; the arguments are those of the base class.

        Raises:
            PolicyDoesNotFit: If the device or a needed parameter is missing, or the device does
                not support the precision.
        """
        initial = deepcopy(module)
        super().__init__(
            module,
            observation=observation,
            action=action,
            seed=seed,
            device=device,
            precision=precision,
        )
        # Buffers outside the state_dict have values, so this template is not empty.
        self._template = initial.to(self._device).eval().requires_grad_(False)
        self._kind = kind
        self._action = action
        self._has_distribution = hasattr(initial, "distribution")
        if self._has_distribution:
            torch.manual_seed(seed)
        elif self._head.is_continuous and not isinstance(getattr(initial, "log_std", None), Tensor):
            raise PolicyDoesNotFit(
                KIND, f"{kind} needs a parameter log_std, or distribution(), for continuous actions"
            )

    def initial_state(self, batch: int) -> State:
        """Return the module's initial state; empty if it has none."""
        begin = getattr(self._template, "initial_state", None)
        if begin is None:
            return {}
        with torch.inference_mode():
            found = begin(batch)
        if not isinstance(found, Mapping) or not all(
            isinstance(rows, Tensor) and rows.shape[:1] == (batch,) for rows in found.values()
        ):
            raise self._misfit(f"initial_state({batch}) must return tensors [{batch}, …] by name")
        return {name: rows.cpu().numpy() for name, rows in found.items()}

    def prepare(self, tensors: Mapping[str, NDArray[Any]]) -> nn.Module:
        """Return a copy of the module with these weights; thread-safe.

        They keep their type in every precision: parts of the module may compute outside autocast.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the module.
        """
        expected = self._template.state_dict()
        check_weights(expected, tensors)
        module = deepcopy(self._template)
        module.load_state_dict(
            {
                name: placed(tensor_of(value), self._device, expected[name].dtype)
                for name, value in tensors.items()
            },
            assign=True,
        )
        return module.eval().requires_grad_(False)

    def _run(
        self, module: nn.Module, obs: NDArray[Any], state: State, first: NDArray[np.bool_]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        batch, parts = len(first), self._observation.parts
        found = module(
            {name: self._tensor(obs[name]) for name in parts} if parts else self._tensor(obs),
            {name: torch.from_numpy(rows).to(self._device) for name, rows in state.items()},
            torch.from_numpy(first).to(self._device),
        )
        if not isinstance(found, tuple) or len(found) != 3:
            raise self._misfit("forward() must return outputs, values and state")
        outputs, values, after = found
        if values is None:
            values = torch.zeros(batch, device=self._device)
        if not self._has_distribution:
            self._check("outputs", outputs, (batch, self._head.outputs))
        self._check("values", values, (batch,))
        if not isinstance(after, Mapping) or after.keys() != state.keys():
            raise self._misfit(f"forward() must return the state {sorted(state)}")
        for name, rows in after.items():
            self._check(f"state {name}", rows, state[name].shape)
        return outputs, values, dict(after)

    def _draw(self, module: nn.Module, outputs: Tensor) -> tuple[Tensor, Tensor]:
        if not self._has_distribution:
            return super()._draw(module, outputs)
        distribution = module.distribution(outputs)
        try:
            actions = distribution.mode if self.is_deterministic else distribution.sample()
        except NotImplementedError:
            raise self._misfit(
                f"{type(distribution).__name__} has no mode; set evaluation.deterministic to false"
            ) from None
        logprobs = distribution.log_prob(actions)
        self._check("an action", actions, (len(outputs), *self._action.shape))
        if logprobs.dim() > 1:
            logprobs = logprobs.flatten(1).sum(1)
        self._check("a logprob", logprobs, (len(outputs),))
        return actions.float() if self._action.kind == "box" else actions.long(), logprobs

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _check(self, what: str, tensor: Any, shape: tuple[int, ...]) -> None:
        if not isinstance(tensor, Tensor):
            raise self._misfit(f"{what} must be a tensor, not {type(tensor).__name__}")
        if tuple(tensor.shape) != shape:
            raise self._misfit(f"{what} has the shape {list(tensor.shape)}, expected {list(shape)}")

    def _misfit(self, problem: str) -> PolicyDoesNotFit:
        return PolicyDoesNotFit(KIND, f"{self._kind}: {problem}")


def make_policy(
    config: PolicyConfig, observation: Space, action: Space, *, seed: int, device: str = "auto"
) -> TorchPolicy:
    """Return a policy without weights; the device ``auto`` is a GPU if there is one.

    Raises:
        PolicyDoesNotFit: If the policy does not support such observations, or the device is missing
            or does not support the precision.
    """
    common: Any = {"seed": seed, "device": device, "precision": config.precision}
    if config.kind not in BUILT_IN:
        module = build(config.kind, config.kwargs, observation, action)
        return RegisteredPolicy(
            module, kind=config.kind, observation=observation, action=action, **common
        )
    # Only the names and shapes of the module are used.
    with torch.device("meta"):
        module = make_module(config, observation, action)
    kinds: dict[str, Callable[..., TorchPolicy]]
    kinds = {"mlp": TorchMlp, "gru": TorchRecurrent, "cnn": TorchConvolutional}
    return kinds[config.kind](module, observation=observation, action=action, **common)


def make_module(config: PolicyConfig, observation: Space, action: Space) -> nn.Module:
    """Return the network of a policy with initial weights.

    Raises:
        PolicyDoesNotFit: If the policy does not support such observations.
    """
    if config.kind not in BUILT_IN:
        return build(config.kind, config.kwargs, observation, action)
    head = head_for(action)
    if config.kind == "mlp":
        return MlpPolicy(
            observation.size,
            head.outputs,
            config.hidden_sizes,
            is_continuous=head.is_continuous,
        )
    if config.kind == "gru":
        has_images = observation.is_image or any(p.is_image for p in observation.parts.values())
        return RecurrentPolicy(
            _image_encoder(config, observation) if has_images else observation.size,
            head.outputs,
            hidden_sizes=config.hidden_sizes,
            recurrent_units=config.recurrent_units,
            is_continuous=head.is_continuous,
        )
    return ConvolutionalPolicy(
        _image_encoder(config, observation), head.outputs, is_continuous=head.is_continuous
    )


def _image_encoder(config: PolicyConfig, observation: Space) -> ImageEncoder:
    try:
        shape = image_shape(observation)
    except NoImages as error:
        raise PolicyDoesNotFit("policy.kind", f"{config.kind} needs images: {error}") from error
    in_pictures = sum(part.size for part in image_parts(observation).values())
    return ImageEncoder(
        shape,
        observation.size - in_pictures,
        channels=config.channels,
        hidden_sizes=config.hidden_sizes,
    )
