"""Compute advantages and value targets from rewards and value estimates.

All arrays are ``[N, T]``: N fragments of T steps, from :meth:`rolldeck.batches.Batch.stack`. No
sum crosses the end of an episode or enters padding. Joined fragments, ``[C, T]`` from
:func:`rolldeck.training.chunks.stack`, have the same form::

    steps = transitions(arrays, values=…, last_values=…, final_values=…)
    learned = vtrace(steps, logprobs - arrays["behavior_logprob"], gamma=0.99, lam=0.95)

Sources:
    GAE: Schulman et al. 2015, arXiv:1506.02438, equation 16.
    V-trace: Espeholt et al. 2018, arXiv:1802.01561, equations 1 and 4, lambda as in remark 2.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]


class Transitions(NamedTuple):
    """Steps with value estimates; all ``[N, T]``.

    Attributes:
        rewards: Reward after each action.
        values: Value estimates of the observations before each action.
        next_values: Value estimates after each action: 0 if the episode terminated, the value of
            its last observation if it was truncated.
        ended: Whether the step ended its episode.
        mask: False for the padding after the last real step of a fragment, and for a truncated step
            without a final observation, whose successor is unknown.
    """

    rewards: Floats
    values: Floats
    next_values: Floats
    ended: Bools
    mask: Bools


class TrainingTargets(NamedTuple):
    """Training targets; all ``[N, T]``, in the widest float dtype of the arguments.

    Attributes:
        advantages: Advantage of each action; 0 in padding.
        targets: Target of the value function for each observation.
        weights: Truncated importance weight of each action, ρ; 1 for GAE. Equation 4 multiplies
            the advantages by it. Here they are unweighted: PPO's loss multiplies by its own
            ratio, and would count the weight twice.
    """

    advantages: Floats
    targets: Floats
    weights: Floats


def transitions(
    arrays: Mapping[str, NDArray[Any]],
    *,
    values: Floats,
    last_values: Floats,
    final_values: Floats,
) -> Transitions:
    """Return the steps of a batch with the values of their successors.

    A truncated step without a final observation has no target: its advantage is 0, and its episode
    ends with the value of its observation.

    Args:
        arrays: Output of :meth:`rolldeck.batches.Batch.stack`.
        values: Estimates for ``obs``, ``[N, T]``.
        last_values: Estimates for ``next_obs``, ``[N]``.
        final_values: Estimates for ``final_obs``, ``[K]``.
    """
    terminated, truncated, mask = arrays["terminated"], arrays["truncated"], arrays["mask"]
    next_values = np.roll(values, -1, axis=1)
    next_values[np.arange(len(mask)), mask.sum(axis=1) - 1] = last_values
    finals = arrays["final_fragment"], arrays["final_step"]
    next_values[finals] = final_values
    is_unknown = truncated & ~terminated
    is_unknown[finals] = False
    return Transitions(
        rewards=arrays["reward"],
        values=values,
        next_values=np.where(terminated, np.float32(0), np.where(is_unknown, values, next_values)),
        ended=terminated | truncated,
        mask=mask & ~is_unknown,
    )


def gae(steps: Transitions, *, gamma: float, lam: float) -> TrainingTargets:
    """Return generalized advantage estimates, which are exact for on-policy data.

    Args:
        steps: Steps of the batch.
        gamma: Discount of a step.
        lam: Lambda; 0 relies on the value function, 1 on the rewards.
    """
    return vtrace(steps, np.zeros_like(steps.values), gamma=gamma, lam=lam)


def vtrace(
    steps: Transitions,
    log_ratio: Floats,
    *,
    gamma: float,
    lam: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> TrainingTargets:
    """Return V-trace targets, which correct for actions of another policy.

    If both policies agree, this equals GAE for any lambda. A step that the present policy would not
    have taken has little weight, and reduces the weight of the steps after it.

    Args:
        steps: Steps of the batch, with values of the present value function.
        log_ratio: log π(a|x) − log μ(a|x) of the actions taken, ``[N, T]``: π is the present
            policy, μ the behavior policy (``behavior_logprob``).
        gamma: Discount of a step.
        lam: Lambda.
        rho_clip: ρ̄, bound of a step's own weight; it determines the policy of the fixed point.
        c_clip: c̄, bound of the weights of later steps; it trades bias for variance.
    """
    rho = np.exp(np.minimum(log_ratio, math.log(rho_clip)))
    c = np.exp(np.minimum(log_ratio, math.log(c_clip)))
    errors = steps.rewards + gamma * steps.next_values - steps.values
    corrections = _summed_backwards(
        np.where(steps.mask, rho * errors, 0), np.where(steps.ended, 0, gamma * lam * c)
    )
    # Corrections beyond the next value; equation 4 with lambda: the next target is mixed with the
    # next value, so that equal policies yield GAE.
    after = np.zeros_like(corrections)
    after[:, :-1] = np.where(steps.ended[:, :-1], 0, gamma * lam * corrections[:, 1:])
    return TrainingTargets(
        advantages=np.where(steps.mask, errors + after, 0),
        targets=steps.values + corrections,
        weights=rho,
    )


def _summed_backwards(terms: NDArray[Any], decays: NDArray[Any]) -> NDArray[Any]:
    """Return s with s[t] = terms[t] + decays[t] · s[t + 1]; all ``[N, T]``."""
    sums = np.zeros_like(terms)
    later = np.zeros_like(terms[:, 0])
    for t in reversed(range(terms.shape[1])):
        later = terms[:, t] + decays[:, t] * later
        sums[:, t] = later
    return sums
