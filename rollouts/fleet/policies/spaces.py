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
from numpy.typing import NDArray

# Types that messages cannot contain, with a wider type for each.
WIDER: Final = {"uint16": "int32", "uint32": "int64"}
CARRIED: Final = frozenset(
    {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}
)

UINT8_HIGH: Final = 255

Path = tuple[str, ...]
Encode = Callable[[Any], NDArray[Any]]
Decode = Callable[[NDArray[Any]], Any]


class UnsupportedSpace(TypeError):
    """The observations or actions have an unsupported space."""


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
        """Whether a value is an image ``[H, W, C]`` of bytes."""
        return self.kind == "box" and self.dtype == "uint8" and len(self.shape) == 3

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


def observations(space: Any) -> tuple[Space, Encode | None]:
    """Return the converted observation space, and the conversion of its values.

    The conversion is None if values need none.

    Raises:
        UnsupportedSpace: If the space is not supported.
    """
    if not _is_composed(space):
        return _simple(space)
    found = {path: _simple(leaf) for path, leaf in _leaves(space)}
    parts = {".".join(path): part for path, (part, _) in found.items()}
    described = Space(kind="parts", shape=(), dtype="", parts=parts)
    dtype = described.array_dtype

    def encode(value: Any) -> NDArray[Any]:
        row = np.zeros((), dtype)
        for path, (_, encode_part) in found.items():
            part = _at(value, path)
            row[".".join(path)] = part if encode_part is None else encode_part(part)
        return row

    return described, encode


def actions(space: Any) -> tuple[Space, Decode | None]:
    """Return the converted action space, and the conversion back to the environment's values.

    The conversion is None if actions need none.

    Raises:
        UnsupportedSpace: If the space is not supported, such as a Dict of Box and Discrete.
    """
    if not _is_composed(space):
        described, _ = _simple(space)
        return described, _decoder(space, described)
    leaves = [(path, leaf, _simple(leaf)[0]) for path, leaf in _leaves(space)]
    forms = [form for _, _, form in leaves]
    if len({form.kind == "box" for form in forms}) > 1:
        names = ", ".join(f"{'.'.join(path)}: {form}" for path, _, form in leaves)
        raise UnsupportedSpace(f"an action cannot combine Box and discrete parts: {names}")
    described = _row_of_boxes(forms) if forms[0].kind == "box" else _row_of_choices(forms)
    ends = np.cumsum([_width(form) for form in forms]).tolist()

    def decode(row: NDArray[Any]) -> Any:
        begin, value = 0, {}
        for (path, leaf, _), end in zip(leaves, ends, strict=True):
            value[path] = _value_of(leaf, row[begin:end])
            begin = end
        return _nested(space, value)

    return described, decode


def _simple(space: Any) -> tuple[Space, Encode | None]:
    kind = type(space).__name__
    if kind == "Discrete":
        n, start = int(space.n), int(space.start)
        return Space(kind="discrete", shape=(), dtype="int64", choices=n, start=start), None
    if kind == "Box":
        return _box(space)
    if kind == "MultiDiscrete":
        starts = np.ravel(space.start)
        return (
            _choices([int(n) for n in np.ravel(space.nvec)], "int64"),
            lambda value: np.ravel(value).astype(np.int64) - starts,
        )
    if kind == "MultiBinary":
        return (
            _choices([2] * math.prod(space.shape), "int8"),
            lambda value: np.ravel(value).astype(np.int8),
        )
    raise UnsupportedSpace(
        f"{kind} is not supported; use Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple"
    )


def _choices(each: list[int], dtype: str) -> Space:
    return Space(kind="multi_discrete", shape=(len(each),), dtype=dtype, each_choices=each)


def _box(space: Any) -> tuple[Space, Encode | None]:
    dtype = np.dtype(space.dtype).name
    carried = WIDER.get(dtype, dtype)
    if carried not in CARRIED:
        raise UnsupportedSpace(f"a Box of {dtype} is not supported")
    low, high = np.ravel(space.low), np.ravel(space.high)
    # The bounds of an image, one per pixel, add nothing to its type.
    bounded = bool(np.isfinite(low).all() and np.isfinite(high).all()) and not (
        dtype == "uint8" and not low.any() and bool((high == UINT8_HIGH).all())
    )
    described = Space(
        kind="box",
        shape=tuple(int(size) for size in space.shape),
        dtype=carried,
        low=[float(x) for x in low] if bounded else [],
        high=[float(x) for x in high] if bounded else [],
    )
    if carried == dtype:
        return described, None
    return described, lambda value: np.asarray(value, dtype=carried)


def _decoder(space: Any, described: Space) -> Decode | None:
    """Return the conversion for a plain space; the caller adds the start of a Discrete."""
    if described.kind == "multi_discrete":
        return lambda row: _value_of(space, row)
    if described.kind == "box" and np.dtype(space.dtype).name != described.dtype:
        return lambda numbers: numbers.astype(space.dtype)
    return None


def _value_of(leaf: Any, row: NDArray[Any]) -> Any:
    if type(leaf).__name__ == "Discrete":
        return int(row[0]) + int(leaf.start)
    return (row.reshape(leaf.shape) + getattr(leaf, "start", 0)).astype(leaf.dtype)


def _row_of_boxes(forms: list[Space]) -> Space:
    low = [bound for form in forms for bound in form.low]
    high = [bound for form in forms for bound in form.high]
    size = sum(form.size for form in forms)
    if len(low) != size:
        low, high = [], []
    return Space(kind="box", shape=(size,), dtype="float32", low=low, high=high)


def _row_of_choices(forms: list[Space]) -> Space:
    return _choices([n for form in forms for n in form.each_choices or [form.choices]], "int64")


def _width(form: Space) -> int:
    return form.size if form.kind == "box" else len(form.each_choices) or 1


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
        path = (*above, str(key))
        if _is_composed(child):
            yield from _leaves(child, path)
        else:
            yield path, child


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key] if isinstance(value, Mapping) else value[int(key)]
    return value


def _nested(space: Any, value: Mapping[Path, Any], above: Path = ()) -> Any:
    """Return a nested value of `space` from its leaves, the inverse of `_leaves`."""
    if not _is_composed(space):
        return value[above]
    children = space.spaces
    if isinstance(children, Mapping):
        return {k: _nested(child, value, (*above, str(k))) for k, child in children.items()}
    return tuple(_nested(child, value, (*above, str(n))) for n, child in enumerate(children))
