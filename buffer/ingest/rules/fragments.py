"""Validate a fragment: its arrays against its header and against each other.

Shapes are those of :class:`rolldeck.wire.Fragment`; T is `steps`.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    INFO,
    SCHEMA_VERSION,
    Fragment,
    unpack_array,
)

# Required arrays with first axis T, and their dtypes (None: any).
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
# Arrays that must be 0 in padding.
_MARKS: Final = ("reward", "first", "terminated", "truncated")

_MOST_CACHED_CHARACTERS: Final = 4096
"""Longest total length of array names for which the form check is cached; bounds its memory."""

Arrays = dict[str, NDArray[Any]]
Shape = tuple[int, ...]


class BrokenFragment(ValueError):
    """A fragment is inconsistent; `field` is the path within the fragment."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


def check(fragment: Fragment) -> None:
    """Validate a fragment.

    Raises:
        BrokenFragment: At the first array that is missing, has the wrong dtype or shape, is not
            finite, or contradicts the header.
    """
    if fragment.schema != SCHEMA_VERSION:
        raise BrokenFragment("schema", f"is {fragment.schema}, must be {SCHEMA_VERSION}")
    if fragment.version_min > fragment.version_max:
        raise BrokenFragment("version_min", "is newer than version_max")
    if "\x00" in fragment.slot + fragment.environment + fragment.worker:
        raise BrokenFragment("slot", "names must not contain the NUL character")
    arrays: Arrays = {}
    for array_name, packed in fragment.arrays.items():
        try:
            array = unpack_array(packed)
        except (InvalidMessageError, ValueError) as error:
            raise BrokenFragment(f"arrays.{array_name}", str(error)) from error
        if array.dtype.kind == "f" and _invalid_numbers(array_name, array):
            raise BrokenFragment(f"arrays.{array_name}", "contains a value that is not finite")
        arrays[array_name] = array
    forms = tuple((name, one.dtype, one.shape) for name, one in fragment.arrays.items())
    is_short = sum(map(len, arrays)) < _MOST_CACHED_CHARACTERS
    (_check_forms if is_short else _check_forms.__wrapped__)(fragment.steps, forms)
    _check_mask(arrays)
    _check_finals(arrays)
    if _leaves(arrays["episode_index"], 0, len(fragment.episode_ids) - 1):
        raise BrokenFragment("arrays.episode_index", "points outside episode_ids")
    if _leaves(arrays["policy_step"], fragment.version_min, fragment.version_max):
        raise BrokenFragment("arrays.policy_step", "must be from version_min to version_max")


@lru_cache(maxsize=256)
def _check_forms(steps: int, forms: tuple[tuple[str, str, Shape], ...]) -> None:
    """Validate arrays by their names, dtypes and shapes.

    Cached, because most fragments of a run have the same names, dtypes and shapes.
    """
    dtypes = {name: dtype for name, dtype, _ in forms}
    shapes = {name: shape for name, _, shape in forms}
    parts = _parts(shapes, "obs")
    for name in [*PER_STEP, *([] if parts else ["obs"])]:
        if name not in shapes:
            raise BrokenFragment(f"arrays.{name}", "is missing")
    per_step = PER_STEP | dict.fromkeys(
        (name for name in shapes if name.startswith(INFO)), "float32"
    )
    for name in [*per_step, *(f"obs{part}" for part in parts)]:
        required, shape = per_step.get(name), shapes[name]
        if required is not None and dtypes[name] != required:
            raise BrokenFragment(f"arrays.{name}", f"is {dtypes[name]}, not {required}")
        if shape[:1] != (steps,):
            raise BrokenFragment(f"arrays.{name}", f"has shape {list(shape)} for {steps} steps")
        if required is not None and len(shape) != 1:
            raise BrokenFragment(f"arrays.{name}", "has more than one axis")
    if "mask" in shapes and (dtypes["mask"], shapes["mask"]) != ("bool", (steps,)):
        raise BrokenFragment("arrays.mask", f"must be bool [{steps}]")
    _check_boundary(dtypes, shapes)


def _check_boundary(dtypes: Mapping[str, str], shapes: Mapping[str, Shape]) -> None:
    """Validate the observations after the last step and after the ends of episodes."""
    parts = _parts(shapes, "obs")
    if "" in parts and len(parts) > 1:
        raise BrokenFragment("arrays.obs", "must be either one array or parts, not both")
    required: dict[str, Shape] = {"next_obs": ()}
    if _parts(shapes, "final_obs"):
        required["final_obs"] = ()
    if ("final_obs" in required) != ("final_step" in shapes):
        raise BrokenFragment("arrays.final_step", "final_obs and final_step require each other")
    if "final_step" in shapes:
        if dtypes["final_step"] != "int32" or len(shapes["final_step"]) != 1:
            raise BrokenFragment("arrays.final_step", "must be int32 with one axis")
        required["final_obs"] = shapes["final_step"]
    for name, leading in required.items():
        for part in sorted(_parts(shapes, name) ^ parts):
            reason = "is missing" if part in parts else "has no matching obs"
            raise BrokenFragment(f"arrays.{name}{part}", reason)
        for part in parts:
            given = dtypes[f"{name}{part}"], shapes[f"{name}{part}"]
            obs = dtypes[f"obs{part}"], leading + shapes[f"obs{part}"][1:]
            if given != obs:
                found, needed = (f"{dtype} {list(shape)}" for dtype, shape in (given, obs))
                raise BrokenFragment(f"arrays.{name}{part}", f"is {found}, obs require {needed}")


def _parts(arrays: Iterable[str], name: str) -> set[str]:
    """Return the suffixes after `name` in the array names: empty, or ``.<part>``."""
    return {found[len(name) :] for found in arrays if found == name or found.startswith(f"{name}.")}


def _invalid_numbers(name: str, array: NDArray[Any]) -> int:
    """Return the count of numbers that are not finite; NaN is valid in values of `info`."""
    if name.startswith(INFO):
        return int(np.count_nonzero(np.isinf(array)))
    return array.size - int(np.count_nonzero(np.isfinite(array)))


def _check_mask(arrays: Arrays) -> None:
    if "mask" not in arrays:
        return
    mask = arrays["mask"]
    real = int(mask.sum())
    if not real or not mask[:real].all():
        raise BrokenFragment("arrays.mask", "must be true for the first steps, at least one")
    for name in (*_MARKS, *(name for name in arrays if name.startswith(INFO))):
        if arrays[name][real:].any():
            raise BrokenFragment(f"arrays.{name}", "must be 0 after the last real step")
    if real < len(mask) and not (arrays["terminated"][real - 1] or arrays["truncated"][real - 1]):
        raise BrokenFragment("arrays.mask", "ends before its episode does")


def _check_finals(arrays: Arrays) -> None:
    final_step = arrays.get("final_step")
    if final_step is None:
        return
    if _leaves(final_step, 0, len(arrays["reward"]) - 1):
        raise BrokenFragment("arrays.final_step", "refers to a step outside the fragment")
    ended = arrays["terminated"] | arrays["truncated"]
    if np.count_nonzero(ended[final_step]) < len(final_step):
        raise BrokenFragment("arrays.final_step", "refers to a step that does not end an episode")


def _leaves(numbers: NDArray[Any], least: int, most: int) -> bool:
    """Return whether any number is outside `least` to `most`."""
    return bool(np.count_nonzero((numbers < least) | (numbers > most)))


def real_steps(fragment: Fragment) -> int:
    """Return the number of steps of a valid fragment that are not padding."""
    mask = fragment.arrays.get("mask")
    return fragment.steps if mask is None else int(unpack_array(mask).sum())
