"""Adaptive normalization of value targets that preserves the outputs of a value head (PopArt).

A value function learns targets of zero mean and unit deviation, whatever the scale of the rewards.
When the statistics change, the last layer is rescaled so that its unnormalized outputs stay the
same::

    popart = PopArt()
    values = popart.denormalize(head(features))  # in the unit of the rewards, for `returns`
    learned = vtrace(transitions(arrays, values=values, …), …)
    popart.update(learned.targets[mask], (head.weight, head.bias))
    loss = (head(features) - popart.normalize(learned.targets)) ** 2

Sources:
    van Hasselt et al. 2016, "Learning values across many orders of magnitude", arXiv:1602.07714,
    section 2, with the rescaling of proposition 1.
    Hessel et al. 2018, "Multi-task deep reinforcement learning with PopArt", arXiv:1809.04474: one
    mean and deviation for each task, with bounds of the deviation.
"""

import math
import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Tasks = NDArray[np.integer[Any]]
STATE: Final = ("mean", "variance", "updates")
HEAD_DTYPES: Final = frozenset({"float32", "float64", "torch.float32", "torch.float64"})


class PopArt:
    """Running mean and standard deviation of the targets of K value outputs.

    Both are exponential moving averages over updates with the bias correction of the paper, so
    the first update adopts the statistics of its targets. They are computed in float64; the
    variance is averaged around the mean, not as E[y²] − μ², which cancels where |μ| ≫ σ.

    Attributes:
        mean: μ of each output, ``[K]`` float64; 0 before the first update.
    """

    def __init__(
        self,
        outputs: int = 1,
        *,
        beta: float = 3e-4,
        min_std: float = 1e-4,
        max_std: float = 1e6,
    ) -> None:
        """Begin with mean 0 and deviation 1.

        Args:
            outputs: K: 1, or the number of tasks.
            beta: Weight of the newest update in the averages, above 0 and at most 1.
            min_std: Lower bound of the deviation, above 0.
            max_std: Upper bound of the deviation.

        Raises:
            ValueError: If a number is out of range.
        """
        if outputs < 1:
            raise ValueError(f"outputs: {outputs}, must be at least 1")
        if not 0 < beta <= 1:
            raise ValueError(f"beta: {beta}, must be above 0 and at most 1")
        if not 0 < min_std <= max_std < math.inf:
            raise ValueError(f"min_std, max_std: {min_std}, {max_std}, must be above 0 and ordered")
        self.outputs = outputs
        self._beta = beta
        self._bounds = (min_std, max_std)
        self.mean = np.zeros(outputs)
        self._variance = np.ones(outputs)
        self._updates = np.zeros(outputs, dtype=np.int64)

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation σ of each output within its bounds, ``[K]``."""
        return self._bounded(self._variance)

    def normalize(self, values: Floats, task: Tasks | None = None) -> Floats:
        """Return (values − μ) / σ in the dtype of `values`.

        Args:
            values: ``[…]`` for one output; ``[…, K]``, or ``[…]`` with `task`, for several.
            task: Output of each value, ``[…]``, 0 to K − 1.
        """
        mean, std = self._statistics(values, task)
        return _as(values, (values - mean) / std)

    def denormalize(self, values: Floats, task: Tasks | None = None) -> Floats:
        """Return σ · values + μ, the inverse of :meth:`normalize`."""
        mean, std = self._statistics(values, task)
        return _as(values, std * values + mean)

    def update(self, targets: Floats, *heads: tuple[Any, Any], task: Tasks | None = None) -> None:
        """Update the statistics with unnormalized targets, and rescale linear value heads.

        With μ, σ before and μ', σ' after, the weights and biases become

            w' = σ / σ' · w,  b' = (σ · b + μ − μ') / σ'

        so σ' · (w'x + b') + μ' = σ · (wx + b) + μ for every input x, up to rounding. Nothing
        changes if an argument is invalid, or without targets. The moments of an optimizer are not
        rescaled.

        Args:
            targets: ``[…]`` or ``[…, K]`` as in :meth:`normalize`; only of real steps. Each call is
                one update, whatever the number of targets. Outputs without targets stay the same.
            heads: Weight ``[K, inputs]`` and bias ``[K]`` of each value head, for instance of a
                target network too: float32 or float64, numpy arrays or torch tensors of any
                device, changed in place.
            task: Output of each target, ``[…]``, as in :meth:`normalize`.

        Raises:
            ValueError: If targets are not finite or too large for a variance in float64, or a
                shape or dtype does not fit. The text names it.
        """
        for head in heads:
            self._check_head(*head)
        wide = np.asarray(targets, dtype=np.float64)
        if task is not None:
            self._check_task(wide, task)
            output = np.asarray(task, dtype=np.intp).ravel()
        else:
            self._check_outputs(wide)
            own = np.arange(self.outputs) if self.outputs > 1 else np.intp(0)
            output = np.broadcast_to(own, wide.shape).ravel()
        if not np.isfinite(wide).all():
            raise ValueError(f"targets: {np.sum(~np.isfinite(wide))} of {wide.size} are not finite")
        flat = wide.ravel()
        counts = np.bincount(output, minlength=self.outputs)
        divisors = np.maximum(1, counts)
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.bincount(output, flat, self.outputs) / divisors
            centred = (flat - means[output]) ** 2
            variances = np.bincount(output, centred, self.outputs) / divisors
            updates = self._updates + (counts > 0)
            # β_t = β / (1 − (1 − β)^t) for the t-th update. Rounded, the first rate may differ
            # from 1, and make a variance of 0 negative.
            counted = np.maximum(1, updates)
            kept = -math.inf if self._beta == 1 else math.log1p(-self._beta)
            decayed = -np.expm1(counted * kept)
            rate = np.where(counted == 1, 1.0, self._beta / decayed)
            rate = np.where(counts > 0, rate, 0)
            step = means - self.mean
            # Equal to the average of y² less μ², without the cancellation.
            variance = (1 - rate) * (self._variance + rate * step**2) + rate * variances
            mean = self.mean + rate * step
        if not (np.isfinite(mean) & np.isfinite(variance)).all():
            largest = np.abs(flat).max()
            raise ValueError(f"targets: up to {largest:.3g}, their variance exceeds float64")
        old, new = self.std, self._bounded(variance)
        factor, shift = old / new, (self.mean - mean) / new
        for head in heads:
            _rescale(*head, factor, shift)
        self.mean, self._variance, self._updates = mean, variance, updates

    def unnormalized(
        self, weight: NDArray[Any], bias: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the weight and bias of the same head with unnormalized outputs, as copies.

        A fleet that acts with them records values in the unit of the rewards.
        """
        self._check_head(weight, bias)
        return _as(weight, self.std[:, None] * weight), _as(bias, self.std * bias + self.mean)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return copies of ``mean`` and ``variance``, float64, and ``updates``, int64, all [K]."""
        arrays = (self.mean, self._variance, self._updates)
        return {name: array.copy() for name, array in zip(STATE, arrays, strict=True)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the statistics of :meth:`state_dict`.

        Raises:
            ValueError: If an entry is missing, unknown or out of range; nothing changes.
        """
        if set(state) != set(STATE):
            raise ValueError(f"state: has {sorted(state)}, must have {sorted(STATE)}")
        arrays = {name: np.array(state[name], dtype=np.float64) for name in STATE}
        for name, array in arrays.items():
            if array.shape != (self.outputs,):
                raise ValueError(f"{name}: shape {array.shape}, must be ({self.outputs},)")
            if not np.isfinite(array).all() or (name != "mean" and (array < 0).any()):
                raise ValueError(f"{name}: must be finite and, except mean, at least 0")
        self.mean, self._variance = arrays["mean"], arrays["variance"]
        self._updates = arrays["updates"].astype(np.int64)

    def _bounded(self, variance: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip(np.sqrt(variance), *self._bounds)

    def _statistics(
        self, values: Floats, task: Tasks | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and deviation that broadcast to `values`."""
        if task is not None:
            self._check_task(values, task)
            return self.mean[task], self.std[task]
        self._check_outputs(values)
        return self.mean, self.std

    def _check_outputs(self, values: NDArray[Any]) -> None:
        if self.outputs > 1 and values.shape[-1:] != (self.outputs,):
            raise ValueError(
                f"values: shape {values.shape}, must end with {self.outputs} outputs, or task is "
                "required"
            )

    def _check_task(self, values: NDArray[Any], task: Tasks) -> None:
        if task.shape != values.shape:
            raise ValueError(f"task: shape {task.shape}, must be {values.shape} as the values")
        if task.size and (task.min() < 0 or task.max() >= self.outputs):
            limits = f"0 to {self.outputs - 1}"
            raise ValueError(f"task: {task.min()} to {task.max()}, must be from {limits}")

    def _check_head(self, weight: Any, bias: Any) -> None:
        if len(weight.shape) != 2 or weight.shape[0] != self.outputs:
            shape = tuple(weight.shape)
            raise ValueError(f"weight: shape {shape}, must be ({self.outputs}, inputs)")
        if tuple(bias.shape) != (self.outputs,):
            raise ValueError(f"bias: shape {tuple(bias.shape)}, must be ({self.outputs},)")
        for name, array in (("weight", weight), ("bias", bias)):
            if str(array.dtype) not in HEAD_DTYPES:
                raise ValueError(
                    f"{name}: dtype {array.dtype} cannot preserve outputs, must be float32 or "
                    "float64"
                )


def _as(values: NDArray[Any], result: NDArray[Any]) -> NDArray[Any]:
    """Return `result` in the floating dtype of `values`; float64 for integers."""
    return result.astype(values.dtype) if values.dtype.kind == "f" else result


def _rescale(
    weight: Any, bias: Any, factor: NDArray[np.float64], shift: NDArray[np.float64]
) -> None:
    """Multiply a head by ``factor [K]`` and add ``shift [K]`` to its bias, in place."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(weight, torch.Tensor):
        weight[...] = factor[:, None] * weight
        bias[...] = factor * bias + shift
        return
    # A torch tensor implies that torch is loaded; this package does not import it.
    with torch.no_grad():
        weight *= torch.as_tensor(factor[:, None], dtype=weight.dtype, device=weight.device)
        bias *= torch.as_tensor(factor, dtype=bias.dtype, device=bias.device)
        bias += torch.as_tensor(shift, dtype=bias.dtype, device=bias.device)
