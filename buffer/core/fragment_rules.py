"""Check that a fragment is whole: its arrays against its header and against one another.

Shapes are those of :class:`rolldeck.wire.Fragment`; T is `steps`.
"""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from buffer.core.fates import DropReason
from rolldeck.wire import SCHEMA_VERSION, Fragment, InvalidMessage, unpack_array

# Name → dtype (None: any), of the arrays whose first axis is T.
PER_STEP: Final[dict[str, str | None]] = {
    "action": None,
    "reward": "float32",
    "first": "bool",
    "terminated": "bool",
    "truncated": "bool",
    "behavior_logprob": "float32",
    "value": "float32",
    "policy_step": "int32",
    "episode_index": "int32",
}
# What padding must not have.
_MARKS: Final = ("reward", "first", "terminated", "truncated")
SCALAR_PER_STEP: Final = [name for name, dtype in PER_STEP.items() if dtype is not None]

Arrays = dict[str, NDArray[Any]]


class BrokenFragment(ValueError):
    """A fragment contradicts itself; `field` is the path below the fragment."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


def check(fragment: Fragment) -> None:
    """Accept a fragment that a trainer can use.

    Raises:
        BrokenFragment: At the first array that is missing, has the wrong dtype or shape, is not
            finite, or contradicts the header.
    """
    if fragment.schema != SCHEMA_VERSION:
        raise BrokenFragment("schema", f"version {fragment.schema} is not {SCHEMA_VERSION}")
    if fragment.version_min > fragment.version_max:
        raise BrokenFragment("version_min", "is newer than version_max")
    if "\x00" in fragment.slot + fragment.environment + fragment.worker:
        raise BrokenFragment("slot", "names must not contain the NUL character")
    arrays = _unpacked(fragment)
    _check_shapes(fragment, arrays)
    _check_mask(arrays)
    _check_boundary(arrays)
    _check_ranges(fragment, arrays)


def _unpacked(fragment: Fragment) -> Arrays:
    arrays: Arrays = {}
    for name, packed in fragment.arrays.items():
        try:
            array = unpack_array(packed)
        except (InvalidMessage, ValueError) as error:
            raise BrokenFragment(f"arrays.{name}", str(error)) from error
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BrokenFragment(f"arrays.{name}", "holds a value that is not finite")
        arrays[name] = array
    for name in [*PER_STEP, *([] if _parts(arrays, "obs") else ["obs"])]:
        if name not in arrays:
            raise BrokenFragment(f"arrays.{name}", "is missing")
    return arrays


def _parts(arrays: Iterable[str], name: str) -> set[str]:
    """Return what follows `name` in the arrays of that name: nothing, or ``.<part>`` of each."""
    return {found[len(name) :] for found in arrays if found == name or found.startswith(f"{name}.")}


def _check_shapes(fragment: Fragment, arrays: Arrays) -> None:
    for name, dtype in PER_STEP.items():
        array = arrays[name]
        if dtype is not None and array.dtype.name != dtype:
            raise BrokenFragment(f"arrays.{name}", f"is {array.dtype.name}, not {dtype}")
    for name in [*PER_STEP, *(f"obs{part}" for part in _parts(arrays, "obs"))]:
        if arrays[name].shape[:1] != (fragment.steps,):
            raise BrokenFragment(
                f"arrays.{name}",
                f"has shape {list(arrays[name].shape)} for {fragment.steps} steps",
            )
    for name in SCALAR_PER_STEP:
        if arrays[name].ndim != 1:
            raise BrokenFragment(f"arrays.{name}", "has more than one axis")


def _check_mask(arrays: Arrays) -> None:
    if "mask" not in arrays:
        return
    mask, steps = arrays["mask"], len(arrays["reward"])
    if mask.dtype.name != "bool" or mask.shape != (steps,):
        raise BrokenFragment("arrays.mask", f"must be bool [{steps}]")
    real = int(mask.sum())
    if not real or not mask[:real].all():
        raise BrokenFragment("arrays.mask", "must be true for the first steps, at least one")
    for name in _MARKS:
        if arrays[name][real:].any():
            raise BrokenFragment(f"arrays.{name}", "is not 0 behind the last real step")
    if real < steps and not (arrays["terminated"][real - 1] or arrays["truncated"][real - 1]):
        raise BrokenFragment("arrays.mask", "ends before its episode does")


def _check_boundary(arrays: Arrays) -> None:
    parts = _parts(arrays, "obs")
    if "" in parts and len(parts) > 1:
        raise BrokenFragment("arrays.obs", "comes whole or in parts, not both")
    _match(arrays, "next_obs", parts)
    for part in parts:
        obs = arrays[f"obs{part}"]
        _same(arrays, f"next_obs{part}", obs.shape[1:], obs.dtype)
    finals = _parts(arrays, "final_obs")
    if bool(finals) != ("final_step" in arrays):
        raise BrokenFragment("arrays.final_step", "final_obs and final_step come together")
    if finals:
        _match(arrays, "final_obs", parts)
        _check_finals(arrays, parts)


def _check_finals(arrays: Arrays, parts: set[str]) -> None:
    final_step = arrays["final_step"]
    if final_step.dtype.name != "int32" or final_step.ndim != 1:
        raise BrokenFragment("arrays.final_step", "must be int32 with one axis")
    for part in parts:
        obs = arrays[f"obs{part}"]
        _same(arrays, f"final_obs{part}", (len(final_step), *obs.shape[1:]), obs.dtype)
    steps = len(arrays["reward"])
    if len(final_step) and (final_step.min() < 0 or final_step.max() >= steps):
        raise BrokenFragment("arrays.final_step", "names a step outside the fragment")
    ended = arrays["terminated"] | arrays["truncated"]
    if not ended[final_step].all():
        raise BrokenFragment("arrays.final_step", "names a step that ended no episode")


def _match(arrays: Arrays, name: str, parts: set[str]) -> None:
    """Accept arrays of `name` that come in the parts of the observations."""
    for part in sorted(_parts(arrays, name) ^ parts):
        reason = "is missing" if part in parts else "has no obs beside it"
        raise BrokenFragment(f"arrays.{name}{part}", reason)


def _same(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    array = arrays[name]
    if array.shape != shape or array.dtype != dtype:
        raise BrokenFragment(
            f"arrays.{name}",
            f"is {array.dtype.name} {list(array.shape)}, obs need {dtype.name} {list(shape)}",
        )


def _check_ranges(fragment: Fragment, arrays: Arrays) -> None:
    index = arrays["episode_index"]
    if index.min() < 0 or index.max() >= len(fragment.episode_ids):
        raise BrokenFragment("arrays.episode_index", "points outside episode_ids")
    acted = arrays["policy_step"]
    if acted.min() < fragment.version_min or acted.max() > fragment.version_max:
        raise BrokenFragment("arrays.policy_step", "leaves version_min … version_max")


def real_steps(fragment: Fragment) -> int:
    """Return how many steps of a whole fragment are real, and not padding."""
    mask = fragment.arrays.get("mask")
    return fragment.steps if mask is None else int(unpack_array(mask).sum())


def drop_reason(
    fragment: Fragment, *, epoch: int, policy_step: int, max_staleness: int | None
) -> DropReason | None:
    """Return why a whole fragment cannot train the run's policy any more, or None.

    Args:
        fragment: Any fragment that :func:`check` accepts.
        epoch: The run's epoch.
        policy_step: The run's current version in that epoch.
        max_staleness: Versions by which data may trail; None for any.
    """
    if fragment.epoch != epoch:
        return DropReason.STALE_EPOCH
    if fragment.version_max > policy_step:
        return DropReason.FUTURE
    if max_staleness is not None and policy_step - fragment.version_min > max_staleness:
        return DropReason.STALE_VERSION
    return None
