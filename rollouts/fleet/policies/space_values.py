"""Comparison of an environment's values with its spaces.

The structure, shape and type of a value are compared when it is stored, and the stored numbers of
many rows at once. Nothing is broadcast, and no value changes by a conversion except for rounding.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rollouts.fleet.policies.spaces import InvalidValue, Space, fitted

MOST: Final = float(np.finfo(np.float32).max)
"""Largest number that rewards and observations may have: policies and fragments use float32."""
_MOST_SQUARES: Final = 1e37
_FLOAT: Final = np.dtype(np.float64)
_NUMBERS: Final = (float, int, np.floating, np.integer, np.bool_)
Shape = tuple[int, ...]
Bounds = list[tuple[str, NDArray[Any], NDArray[Any]]]


def number(value: Any, name: str) -> float:
    """Return a number, which may be an array with one element.

    Raises:
        InvalidValue: If it is something else.
    """
    if isinstance(value, _NUMBERS):
        return float(value)
    if value is None or isinstance(value, str | bytes | Mapping):
        raise InvalidValue(f"{name} is {type(value).__name__}; it must be a number")
    shape = np.shape(value)
    if shape not in ((), (1,)):
        raise InvalidValue(f"{name} has shape {list(shape)}; it must be a number")
    return float(fitted(np.asarray(value).reshape(()), (), _FLOAT, name))


def require_finite(found: float, name: str) -> None:
    """Check that float32 has the number.

    Raises:
        InvalidValue: If it is NaN, infinite or too large.
    """
    if not -MOST <= found <= MOST:
        raise InvalidValue(f"{name} is {found}; it must be finite in float32")


def validity(space: Space) -> Callable[[NDArray[Any]], bool] | None:
    """Return a fast check of contiguous rows: whether `invalid_rows` is surely empty.

    None if it always is.
    """
    checks = [(part, _validity(form)) for part, form in _parts(space) if _has_range(form)]
    if not checks:
        return None
    if not space.parts:
        return checks[0][1]
    return lambda rows: all(is_valid(rows[part]) for part, is_valid in checks)


def _validity(form: Space) -> Callable[[NDArray[Any]], bool]:
    if form.kind != "box":
        low: Any = form.start
        count = np.asarray(form.each_choices or form.choices, dtype=np.uint64)
        # Numbers below 0 become huge.
        if not low:
            return lambda rows: not np.count_nonzero(rows.astype(np.uint64) >= count)
        return lambda rows: not np.count_nonzero((rows - low).astype(np.uint64) >= count)
    if form.dtype == "float16":
        return lambda rows: bool(np.isfinite(rows).all())

    # The sum of squares takes a single pass; a NaN fails the comparison.
    return lambda rows: float(np.vdot(rows, rows)) <= _MOST_SQUARES


def invalid_rows(space: Space, rows: NDArray[Any], name: str) -> dict[int, str]:
    """Return row → problem of each of `rows [N, …]` with a number that cannot be used.

    Numbers must be finite in float32, and choices must be in their range. Bounds of a box are not
    compared: see `outside`.
    """
    found: dict[int, str] = {}
    for part, form in _parts(space):
        numbers, limit = rows[part] if part else rows, ""
        if form.kind == "box":
            if numbers.dtype.kind != "f":
                continue
            wide = numbers.dtype.itemsize > np.dtype(np.float32).itemsize
            is_valid = np.abs(numbers) <= MOST if wide else np.isfinite(numbers)
            limit = "it must be finite in float32"
        else:
            low: Any = form.start
            count: Any = form.each_choices or form.choices
            is_valid = (numbers >= low) & (numbers < np.add(count, low))
        if np.count_nonzero(is_valid) == is_valid.size:
            continue
        label = f"{name}.{part}" if part else name
        for row, place in _first_places(~is_valid):
            most = np.add(form.each_choices or form.choices, form.start - 1)
            choices = f"its choices are {form.start} to {most[place] if most.ndim else most}"
            text = f"{_element(label, place)} is {numbers[(row, *place)]}; {limit or choices}"
            found.setdefault(row, text)
    return found


def action_validity(space: Space) -> Callable[[NDArray[Any]], bool]:
    """Return a fast check of a policy's actions: whether `invalid_actions` is surely empty."""
    # Policies choose float32 for a box of any type.
    kind = {"dtype": "float32"} if space.kind == "box" else {"start": 0}
    return validity(replace(space, **kind)) or (lambda _: True)


def invalid_actions(space: Space, actions: NDArray[Any]) -> dict[int, str]:
    """Return row → problem of a policy's actions ``[N, …]``, whose choices count from 0."""
    return invalid_rows(replace(space, start=0), actions, "action")


def bounds_of(space: Space) -> Bounds:
    """Return name, lower and upper bounds of each box whose bounds are all finite."""
    return [
        (part, np.reshape(form.low, form.shape), np.reshape(form.high, form.shape))
        for part, form in _parts(space)
        if form.kind == "box" and form.low
    ]


def outside(bounds: Bounds, rows: NDArray[Any], name: str) -> tuple[int, str] | None:
    """Return the first of `rows [N, …]` outside the bounds of a box, and where."""
    for part, low, high in bounds:
        numbers = rows[part] if part else rows
        is_outside = (numbers < low) | (numbers > high)
        for row, place in _first_places(is_outside):
            label = _element(f"{name}.{part}" if part else name, place)
            limits = f"{low[place]:g} to {high[place]:g}"
            return row, f"{label} is {numbers[(row, *place)]}; its bounds are {limits}"
    return None


def _has_range(form: Space) -> bool:
    return form.kind != "box" or "float" in form.dtype


def _parts(space: Space) -> Iterator[tuple[str, Space]]:
    """Yield name and space of each part; the empty name is the whole value."""
    if not space.parts:
        yield "", space
    yield from space.parts.items()


def _first_places(is_chosen: NDArray[np.bool_]) -> Iterator[tuple[int, Shape]]:
    """Yield each row with a chosen element, and the first such element in it."""
    flat = is_chosen.reshape(len(is_chosen), -1)
    for row in np.flatnonzero(flat.any(axis=1)).tolist():
        place = np.unravel_index(int(flat[row].argmax()), is_chosen.shape[1:] or (1,))
        yield row, tuple(map(int, place)) if is_chosen.ndim > 1 else ()


def _element(name: str, place: Shape) -> str:
    return f"{name}[{', '.join(map(str, place))}]" if place else name
