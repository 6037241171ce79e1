"""Fragments and batches of synthetic steps."""

from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rolldeck.replay import pack_fragment
from rolldeck.wire import BatchAnswer, BatchHead, Fragment, encode, pack_array

OBS_SIZE = 4


def make_arrays(
    *,
    steps: int = 8,
    policy_step: int = 0,
    seed: int = 0,
    ends: dict[int, str] | None = None,
    real: int | None = None,
) -> dict[str, NDArray[Any]]:
    """Return a fragment's arrays; `ends` maps a step to "terminated" or "truncated".

    With `real`, the steps after the first `real` ones are padding.
    """
    rng = np.random.default_rng(seed)
    ends = ends or {}
    first = np.zeros(steps, dtype=bool)
    first[[step + 1 for step in ends if step + 1 < steps]] = True
    arrays: dict[str, NDArray[Any]] = {
        "obs": rng.normal(size=(steps, OBS_SIZE)).astype(np.float32),
        "action": rng.integers(0, 2, steps),
        "reward": rng.normal(size=steps).astype(np.float32),
        "first": first,
        "terminated": np.array([ends.get(t) == "terminated" for t in range(steps)]),
        "truncated": np.array([ends.get(t) == "truncated" for t in range(steps)]),
        "behavior_logprob": np.full(steps, np.log(0.5), dtype=np.float32),
        "value": rng.normal(size=steps).astype(np.float32),
        "policy_step": np.full(steps, policy_step, dtype=np.int32),
        "episode_index": np.cumsum(first, dtype=np.int32),
        "next_obs": rng.normal(size=OBS_SIZE).astype(np.float32),
    }
    if ends:
        arrays["final_obs"] = rng.normal(size=(len(ends), OBS_SIZE)).astype(np.float32)
        arrays["final_step"] = np.array(sorted(ends), dtype=np.int32)
    if real is not None:
        arrays["mask"] = np.arange(steps) < real
        for name in ("reward", "first"):
            arrays[name][real:] = 0
    return arrays


def make_fragment(
    *, number: int = 0, slot: str = "w0-0@t", epoch: int = 1, **made: Any
) -> Fragment:
    """Return a fragment of :func:`make_arrays`' arrays."""
    arrays = make_arrays(seed=number, **made)
    return pack_fragment(
        arrays,
        slot=slot,
        number=number,
        environment="gymnasium:CartPole-v1",
        worker="w0",
        epoch=epoch,
        episode_ids=[f"e{number}-{i}" for i in range(int(arrays["episode_index"][-1]) + 1)],
    )


def with_arrays(fragment: Fragment, **arrays: NDArray[Any]) -> Fragment:
    """Return the fragment with some arrays replaced or added."""
    packed = {name: pack_array(array) for name, array in arrays.items()}
    return replace(fragment, arrays=fragment.arrays | packed)


def make_batch_body(fragments: list[Fragment], *, ordinal: int = 1) -> bytes:
    """Return the response body of ``batches/next``."""
    head = BatchHead(
        id=f"b{ordinal}",
        ordinal=ordinal,
        fence=1,
        kind="fragments",
        count=len(fragments),
        lease_seconds=60,
        epoch=1,
        policy_step=3,
    )
    return encode(BatchAnswer(batch=head, items=[encode(fragment) for fragment in fragments]))
