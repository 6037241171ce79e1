"""Unbroken trajectories, and the fragments that are cut from them."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rolldeck.batches import FragmentView
from rolldeck.replay import pack_fragment
from rolldeck.training.returns import Transitions, transitions
from rolldeck.wire import Fragment

Arrays = dict[str, NDArray[Any]]


OBS, UNITS, ACTIONS = 3, 2, 4


PER_STEP = (
    *("obs", "action", "reward", "first", "terminated", "truncated"),
    *("behavior_logprob", "value", "policy_step", "episode_index", "info.cost"),
)


class Trajectory(NamedTuple):
    """Unbroken steps of one slot, with the recurrent state before each."""

    arrays: Arrays
    states: NDArray[np.float32]
    episode_ids: list[str]


def trajectory(seed: int, steps: int) -> Trajectory:
    """Return steps with terminations, truncations, aborted episodes and rising versions."""
    rng = np.random.default_rng(seed)
    end = rng.choice(["", "terminated", "truncated", "aborted"], steps, p=[0.7, 0.12, 0.12, 0.06])
    ended = end != ""
    first = np.concatenate([[rng.random() < 0.5], ended[:-1]])
    obs = rng.normal(size=(steps + 1, OBS)).astype(np.float32)
    final_step = np.flatnonzero(ended & (end != "aborted"))
    episode_index = np.cumsum(np.concatenate([[False], ended[:-1]]), dtype=np.int32)
    arrays: Arrays = {
        "obs": obs[:-1],
        "next_obs": obs[-1],
        "action": rng.integers(0, ACTIONS, steps),
        "reward": rng.normal(size=steps).astype(np.float32),
        "first": first,
        "terminated": end == "terminated",
        "truncated": (end == "truncated") | (end == "aborted"),
        "behavior_logprob": rng.normal(-1, 1, steps).astype(np.float32),
        "value": rng.normal(size=steps).astype(np.float32),
        "policy_step": np.cumsum(rng.random(steps) < 0.2, dtype=np.int32),
        "episode_index": episode_index,
        "final_obs": rng.normal(size=(len(final_step), OBS)).astype(np.float32),
        "final_step": final_step.astype(np.int32),
    }
    states = rng.normal(size=(steps, UNITS)).astype(np.float32)
    cost = np.where(rng.random(steps) < 0.3, np.nan, rng.normal(size=steps))
    arrays["info.cost"] = cost.astype(np.float32)
    return Trajectory(arrays, states, [f"e{place}" for place in range(episode_index[-1] + 1)])


def fragment_of(
    whole: Trajectory, begin: int, end: int, *, number: int, padding: int = 0, slot: str = "w0-0@t"
) -> Fragment:
    """Return steps `begin` to `end` as a fragment, with `padding` if the last ends an episode."""
    arrays = {name: whole.arrays[name][begin:end] for name in PER_STEP}
    used = np.unique(arrays["episode_index"])
    arrays["episode_index"] = arrays["episode_index"] - used[0]
    final_step = whole.arrays["final_step"]
    inside = (final_step >= begin) & (final_step < end)
    if inside.any():
        arrays["final_step"] = final_step[inside] - np.int32(begin)
        arrays["final_obs"] = whole.arrays["final_obs"][inside]
    if padding and (arrays["terminated"][-1] or arrays["truncated"][-1]):
        arrays |= {
            name: np.concatenate([arrays[name], np.repeat(arrays[name][-1:], padding, axis=0)])
            for name in PER_STEP
        }
        for name in ("reward", "first", "terminated", "truncated", "info.cost"):
            arrays[name][end - begin :] = 0
        arrays["mask"] = np.arange(len(arrays["reward"])) < end - begin
    is_last = end == len(whole.states)
    arrays["next_obs"] = whole.arrays["next_obs"] if is_last else whole.arrays["obs"][end]
    arrays["in_state.hidden"] = whole.states[begin]
    return pack_fragment(
        arrays,
        slot=slot,
        number=number,
        environment="gymnasium:CartPole-v1",
        worker="w0",
        epoch=1,
        episode_ids=[whole.episode_ids[place] for place in used],
    )


@st.composite
def cut_trajectories(draw: st.DrawFn) -> tuple[Trajectory, list[Fragment]]:
    """Draw a trajectory and its fragments, cut anywhere and in any order."""
    steps = draw(st.integers(1, 40))
    whole = trajectory(draw(st.integers(0, 10_000)), steps)
    cuts = draw(st.sets(st.integers(1, steps), max_size=8)) - {steps}
    first = draw(st.integers(0, 9))
    fragments = [
        fragment_of(whole, begin, end, number=first + place, padding=draw(st.integers(0, 3)))
        for place, (begin, end) in enumerate(pairwise([0, *sorted(cuts), steps]))
    ]
    return whole, draw(st.permutations(fragments))


def views(fragments: list[Fragment]) -> list[FragmentView]:
    return [FragmentView(fragment) for fragment in fragments]


def value_of(obs: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return a value function's estimates ``[…]`` of ``obs […, OBS]``."""
    return np.tanh(obs.astype(dtype) @ np.array([1.0, -2.0, 0.5], dtype=dtype))


def log_ratio_of(arrays: Arrays, dtype: Any) -> NDArray[Any]:
    present = np.array([-0.5, -1.0, -2.0, -3.0], dtype=dtype)[arrays["action"]]
    return present - arrays["behavior_logprob"].astype(dtype)


def steps_of(arrays: Arrays, dtype: Any) -> Transitions:
    return transitions(
        arrays,
        values=value_of(arrays["obs"], dtype),
        last_values=value_of(arrays["next_obs"], dtype),
        final_values=value_of(arrays["final_obs"], dtype),
    )


def unbroken(whole: Trajectory) -> Arrays:
    """Return the trajectory as a batch of one row, without the code under test."""
    arrays = {name: whole.arrays[name][None] for name in (*PER_STEP, "next_obs")}
    return arrays | {
        "mask": np.ones((1, len(whole.states)), dtype=np.bool_),
        "final_obs": whole.arrays["final_obs"],
        "final_step": whole.arrays["final_step"].astype(np.int64),
        "final_fragment": np.zeros(len(whole.arrays["final_step"]), dtype=np.int64),
    }


def by_definition(arrays: Arrays, *, gamma: float, lam: float, corrected: bool) -> NDArray[Any]:
    """Return the targets of V-trace's equation 1, or of GAE, for one unbroken row: ``[T]``."""
    values = value_of(arrays["obs"][0], np.float64)
    after = np.append(values[1:], value_of(arrays["next_obs"][0], np.float64))
    terminated, truncated = arrays["terminated"][0], arrays["truncated"][0]
    is_unknown = truncated.copy()
    is_unknown[arrays["final_step"]] = False
    after[arrays["final_step"]] = value_of(arrays["final_obs"], np.float64)
    after[terminated] = 0
    weights = np.exp(np.minimum(0, log_ratio_of(arrays, np.float64)[0]))
    rho = weights if corrected else np.ones_like(values)
    errors = rho * (arrays["reward"][0] + gamma * after - values)
    errors[is_unknown] = 0
    targets = []
    for start in range(len(values)):
        total, decay = values[start], 1.0
        for step in range(start, len(values)):
            total += decay * errors[step]
            decay *= gamma * lam * rho[step]
            if terminated[step] or truncated[step]:
                break
        targets.append(total)
    return np.array(targets)
