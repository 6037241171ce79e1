"""Observation and action spaces as plain arrays.

Gymnasium's spaces are converted to a :class:`Space`, which does not require Gymnasium:

==================  =======================================================================
Box                 unchanged; uint16 and uint32 become int32 and int64, uint64 is refused
Discrete(n)         a number, including the environment's `start`
MultiDiscrete       one flat row of numbers from 0, for any shape and `start`
MultiBinary         like MultiDiscrete with two choices each
Dict, Tuple         observations: *parts*, one array each, named by key (or by position in a
                    Tuple; ``a.b`` for b inside a)
                    actions: one flat row of all parts in order, which must be all
                    discrete (Discrete, MultiDiscrete, MultiBinary) or all Box
==================  =======================================================================
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

Layout = Literal["HWC", "CHW", "HW", "ambiguous"]
MOST_CHANNELS: Final = 32
LEAST_SIDE: Final = 16
"""Minimum side of an image without channels; a smaller array is a table of numbers."""
# Types that messages cannot contain, with a wider type for each.
WIDER: Final = {"uint16": "int32", "uint32": "int64"}
CARRIED: Final = frozenset(
    {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}
)
UINT8_HIGH: Final = 255
OBS: Final = "obs"
ACTION: Final = "action"
INT64: Final = np.dtype(np.int64)
INT8: Final = np.dtype(np.int8)
Path = tuple[Any, ...]
"""Keys of a part; those of a Dict may be numbers."""
Encode = Callable[[Any], NDArray[Any]]
Decode = Callable[[NDArray[Any]], Any]
MOST: Final = float(np.finfo(np.float32).max)
"""Largest number that rewards and observations may have: policies and fragments use float32."""
_MOST_SQUARES: Final = 1e37
_FLOAT: Final = np.dtype(np.float64)
_NUMBERS: Final = (float, int, np.floating, np.integer, np.bool_)
Shape = tuple[int, ...]
Bounds = list[tuple[str, NDArray[Any], NDArray[Any]]]


def layout_of(shape: tuple[int, ...]) -> Layout | None:
    """Return the layout of an image of that shape; None if it is no image."""
    if len(shape) == 2:
        return "HW" if min(shape) >= LEAST_SIDE else None
    if len(shape) != 3:
        return None
    first, middle, last = shape
    if first >= min(middle, last):
        return "HWC"
    if first <= MOST_CHANNELS and (middle == last or last > MOST_CHANNELS):
        return "CHW"
    return "ambiguous"


def channels_last(image: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return a view of images ``[…, *shape]`` as ``[…, H, W, C]``."""
    if layout == "HW":
        return image[..., None]
    return np.moveaxis(image, -3, -1) if layout == "CHW" else image


def picture(frame: Any) -> NDArray[Any] | None:
    """Return a rendered frame as ``[H, W, 3]``; None if it is none of the layouts."""
    if not isinstance(frame, np.ndarray):
        return None
    layout = "HW" if frame.ndim == 2 else layout_of(frame.shape)
    if layout not in ("HW", "HWC", "CHW"):
        return None
    found = channels_last(frame, layout)
    if found.shape[-1] == 1:
        return np.repeat(found, 3, axis=-1)
    return found[..., :3] if found.shape[-1] in (3, 4) else None


class UnsupportedSpace(TypeError):
    """The observations or actions have an unsupported space."""


class InvalidValue(ValueError):
    """A value of an environment or a policy does not fit its space; the text names both."""


class Space(Struct, frozen=True, kw_only=True):
    """Space of observations or actions, independent of Gymnasium."""

    kind: Literal["discrete", "box", "multi_discrete", "parts"]
    shape: tuple[int, ...]
    """Dimensions of one value; empty for discrete spaces and for parts."""
    dtype: str
    """NumPy type; empty for parts."""
    choices: int = 0
    """Number of choices of a discrete space, counted from `start`."""
    start: int = 0
    low: list[float] = []
    """Flat lower bounds of a box; empty if any bound is infinite or implied by the type."""
    high: list[float] = []
    each_choices: list[int] = []
    """Number of choices per element of a multi-discrete space, counted from 0."""
    parts: dict[str, "Space"] = {}
    """Parts by name, in the order of the environment."""

    @property
    def size(self) -> int:
        """Length of a flat value, with one-hot choices."""
        if self.parts:
            return sum(part.size for part in self.parts.values())
        if self.each_choices:
            return sum(self.each_choices)
        return self.choices or math.prod(self.shape)

    @property
    def is_image(self) -> bool:
        return self.image_layout is not None

    @property
    def image_layout(self) -> Layout | None:
        """Order of the axes if a value is an image of bytes."""
        return layout_of(self.shape) if self.kind == "box" and self.dtype == "uint8" else None

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Type of an array of values; parts are its fields."""
        if not self.parts:
            return np.dtype(self.dtype)
        return np.dtype([(name, part.dtype, part.shape) for name, part in self.parts.items()])

    def __str__(self) -> str:
        if self.parts:
            return ", ".join(f"{name}: {part}" for name, part in self.parts.items())
        if self.kind == "box":
            return f"{self.dtype} {list(self.shape)}"
        return f"choices {self.each_choices or self.choices}"


def observations(space: Any) -> tuple[Space, Encode]:
    """Return the converted observation space, and the conversion of its values.

    The conversion raises :class:`InvalidValue` for a value of another structure, shape or type. It
    does not compare numbers with their range.

    Raises:
        UnsupportedSpace: If the space is not supported, or two of its parts have the same name.
    """
    if isinstance(space, Space):
        return space, _fit(space, OBS)
    if not _is_composed(space):
        return _simple(space, OBS)
    paths: dict[str, Path] = {}
    parts: dict[str, Space] = {}
    for path, leaf in _leaves(space):
        name = _name(path)
        if name in paths:
            both = " and ".join("".join(f"[{key!r}]" for key in one) for one in (paths[name], path))
            raise UnsupportedSpace(f"two parts of the observation are named {name!r}: {both}")
        paths[name], parts[name] = path, _simple(leaf, name)[0]
    described = Space(kind="parts", shape=(), dtype="", parts=parts)
    dtype = described.array_dtype
    fill = _filler(space, ())

    def encode(value: Any) -> NDArray[Any]:
        row = np.zeros((), dtype)
        fill(value, row)
        return row

    return described, encode


def fitted(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """Return `value` as an array of that shape and type.

    Integers become any type that has them, and floats any float type.

    Raises:
        InvalidValue: If the shape differs, or a number would change by more than rounding.
    """
    if type(value) is np.ndarray and value.dtype == dtype and value.shape == shape:
        return value
    try:
        array = np.asarray(value)
    except Exception as error:
        raise InvalidValue(f"{name} is no array: {error}") from error
    if array.shape != shape:
        raise InvalidValue(f"{name} has shape {list(array.shape)}, its space {list(shape)}")
    if array.dtype == dtype:
        return array
    kind, wanted = array.dtype.kind, dtype.kind
    if wanted == "V" or kind not in ("biuf" if wanted == "f" else "biu"):
        raise InvalidValue(f"{name} is {array.dtype}, its space {dtype}")
    if wanted != "f" and array.size and not np.can_cast(array.dtype, dtype, "safe"):
        limits = (0, 1) if wanted == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        for extreme in (array.min(), array.max()):
            if not limits[0] <= extreme <= limits[1]:
                raise InvalidValue(f"{name} contains {extreme}, its space is {dtype}")
    with np.errstate(over="ignore"):  # infinite numbers are found in the stored rows
        return array.astype(dtype)


def actions(space: Any) -> tuple[Space, Decode | None]:
    """Return the converted action space, and the conversion back to the environment's values.

    The conversion is None if actions need none.

    Raises:
        UnsupportedSpace: If the space is not supported, such as a Dict of Box and Discrete.
    """
    if isinstance(space, Space):
        return space, None
    if not _is_composed(space):
        described, _ = _simple(space, ACTION)
        if described.kind == "multi_discrete":
            return described, lambda row: _value_of(space, row)
        if described.kind == "box" and np.dtype(space.dtype).name != described.dtype:
            return described, lambda numbers: numbers.astype(space.dtype)
        # The caller adds the start of a Discrete.
        return described, None
    leaves = [(path, leaf, _simple(leaf, _name(path))[0]) for path, leaf in _leaves(space)]
    forms = [form for _, _, form in leaves]
    if len({form.kind == "box" for form in forms}) > 1:
        names = ", ".join(f"{_name(path)}: {form}" for path, _, form in leaves)
        raise UnsupportedSpace(f"an action cannot combine Box and discrete parts: {names}")
    if forms[0].kind == "box":
        low = [bound for form in forms for bound in form.low]
        high = [bound for form in forms for bound in form.high]
        size = sum(form.size for form in forms)
        if len(low) != size:
            low, high = [], []
        described = Space(kind="box", shape=(size,), dtype="float32", low=low, high=high)
    else:
        choices = [n for form in forms for n in form.each_choices or [form.choices]]
        described = _choices(choices, "int64")
    widths = [form.size if form.kind == "box" else len(form.each_choices) or 1 for form in forms]
    ends = np.cumsum(widths).tolist()

    def decode(row: NDArray[Any]) -> Any:
        begin, value = 0, {}
        for (path, leaf, _), end in zip(leaves, ends, strict=True):
            value[path] = _value_of(leaf, row[begin:end])
            begin = end
        return _nested(space, value)

    return described, decode


def _simple(space: Any, name: str) -> tuple[Space, Encode]:
    kind = type(space).__name__
    shape = tuple(int(size) for size in space.shape or ())
    if kind == "Discrete":
        n, start = int(space.n), int(space.start)
        described = Space(kind="discrete", shape=(), dtype="int64", choices=n, start=start)
        return described, _fit(described, name)
    if kind == "Box":
        dtype = np.dtype(space.dtype).name
        carried = WIDER.get(dtype, dtype)
        if carried not in CARRIED:
            raise UnsupportedSpace(f"a Box of {dtype} is not supported")
        low, high = np.ravel(space.low), np.ravel(space.high)
        is_bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
        # The bounds of an image, one per pixel, add nothing to its type.
        if dtype == "uint8" and not low.any() and (high == UINT8_HIGH).all():
            is_bounded = False
        described = Space(
            kind="box",
            shape=shape,
            dtype=carried,
            low=[float(x) for x in low] if is_bounded else [],
            high=[float(x) for x in high] if is_bounded else [],
        )
        return described, _fit(described, name)
    if kind == "MultiDiscrete":
        starts = np.ravel(space.start)
        return (
            _choices([int(n) for n in np.ravel(space.nvec)], "int64"),
            lambda value: np.ravel(fitted(value, shape, INT64, name)) - starts,
        )
    if kind == "MultiBinary":
        return (
            _choices([2] * math.prod(shape), "int8"),
            lambda value: np.ravel(fitted(value, shape, INT8, name)),
        )
    raise UnsupportedSpace(
        f"{kind} is not supported; use Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple"
    )


def _fit(space: Space, name: str) -> Encode:
    """Return `fitted` for a space, faster for the arrays that it returns unchanged."""
    shape, dtype = space.shape, space.array_dtype

    def fit(value: Any) -> NDArray[Any]:
        # NumPy has one object for each type of numbers.
        if type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
            return value
        return fitted(value, shape, dtype, name)

    return fit


def _choices(each: list[int], dtype: str) -> Space:
    return Space(kind="multi_discrete", shape=(len(each),), dtype=dtype, each_choices=each)


def _value_of(leaf: Any, row: NDArray[Any]) -> Any:
    if type(leaf).__name__ == "Discrete":
        return int(row[0]) + int(leaf.start)
    return (row.reshape(leaf.shape) + getattr(leaf, "start", 0)).astype(leaf.dtype)


def _is_composed(space: Any) -> bool:
    return type(space).__name__ in {"Dict", "Tuple"}


def _leaves(space: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the plain spaces inside a composed one.

    Raises:
        UnsupportedSpace: If a composed space is empty.
    """
    children = space.spaces
    if not children:
        raise UnsupportedSpace(f"{space} is empty")
    named = children.items() if isinstance(children, Mapping) else enumerate(children)
    for key, child in named:
        path = (*above, key)
        if _is_composed(child):
            yield from _leaves(child, path)
        else:
            yield path, child


def _name(path: Path) -> str:
    return ".".join(map(str, path))


def _filler(space: Any, path: Path) -> Callable[[Any, NDArray[Any]], None]:
    """Return a function that stores a value of `space` in the fields of a row."""
    part = _name(path)
    name = f"{OBS}.{part}" if part else OBS
    if not _is_composed(space):
        encode = _simple(space, name)[1]

        def store(value: Any, row: NDArray[Any]) -> None:
            row[part] = encode(value)

        return store
    children = space.spaces
    is_dict = isinstance(children, Mapping)
    named = list(children.items() if is_dict else enumerate(children))
    fills = [(key, _filler(child, (*path, key))) for key, child in named]
    keys = {key for key, _ in fills}

    def fill(value: Any, row: NDArray[Any]) -> None:
        if isinstance(value, Mapping) if is_dict else isinstance(value, tuple | list | np.ndarray):
            found = value.keys() if is_dict else range(len(value))
            if len(found) == len(fills) and keys.issuperset(found):
                for key, fill_child in fills:
                    fill_child(value[key], row)
                return
            raise InvalidValue(
                f"{name} has the parts {list(found)}, its space {[key for key, _ in fills]}"
            )
        raise InvalidValue(f"{name} is {type(value).__name__}, its space {type(space).__name__}")

    return fill


def _nested(space: Any, value: Mapping[Path, Any], above: Path = ()) -> Any:
    """Return a nested value of `space` from its leaves, the inverse of `_leaves`."""
    if not _is_composed(space):
        return value[above]
    children = space.spaces
    if isinstance(children, Mapping):
        return {k: _nested(child, value, (*above, k)) for k, child in children.items()}
    return tuple(_nested(child, value, (*above, n)) for n, child in enumerate(children))


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
    checks = [
        (part, _validity(form))
        for part, form in _parts(space)
        if form.kind != "box" or "float" in form.dtype
    ]
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
