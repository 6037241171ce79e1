"""All invalid fields of a configuration; msgspec stops at the first."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

Key = str | int


class FieldProblem(NamedTuple):
    """An invalid field: the keys and positions that lead to it, and the reason."""

    keys: tuple[Key, ...]
    message: str
    inner: str = ""
    """Path inside the field's value, as msgspec writes it."""

    @property
    def field(self) -> str:
        """Dotted path, with positions in brackets."""
        path = ""
        for key in self.keys:
            path += f"[{key}]" if isinstance(key, int) else f".{key}"
        return (path + self.inner).lstrip(".")


def problems_in(value: object, kind: Any, keys: tuple[Key, ...] = ()) -> list[FieldProblem]:
    """Return a problem for each invalid field of `value`, in the order of the fields.

    Args:
        value: Decoded JSON.
        kind: Type that msgspec converts it to: a struct, or a type of its fields.
        keys: Keys and positions that lead to the value.
    """
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return list(_inside(value, kind, keys)) or [_problem(error, keys)]
    return []


def without(value: object, problems: Sequence[FieldProblem]) -> object:
    """Return a copy of `value` without its invalid fields, so that their defaults apply.

    A list with an invalid element is left out as a whole.
    """
    rest = deepcopy(value)
    for problem in problems:
        names = [*problem.keys]
        for position, key in enumerate(problem.keys):
            if isinstance(key, int):
                names = [*problem.keys[:position]]
                break
        place: Any = rest
        for name in names[:-1]:
            place = place.get(name, {})
        if names:
            place.pop(names[-1], None)
    return rest


def _problem(error: msgspec.ValidationError, keys: tuple[Key, ...]) -> FieldProblem:
    message, _, path = str(error).partition(" - at ")
    return FieldProblem(keys, message, path.strip("`").removeprefix("$"))


def _inside(value: object, kind: Any, keys: tuple[Key, ...]) -> Iterator[FieldProblem]:
    """Return the problems of the parts of a struct, a mapping or a list; none of other values."""
    kind = _bare(kind)
    arguments = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        if isinstance(value, dict):
            yield from _of_struct(value, kind, keys)
    elif get_origin(kind) is dict and isinstance(value, dict) and _is_struct(arguments[1]):
        for key, item in value.items():
            yield from problems_in(key, arguments[0], (*keys, key))
            yield from problems_in(item, arguments[1], (*keys, key))
    elif get_origin(kind) is list and isinstance(value, list) and _is_struct(arguments[0]):
        for position, item in enumerate(value):
            yield from problems_in(item, arguments[0], (*keys, position))


def _of_struct(
    value: dict[str, object], kind: type[Struct], keys: tuple[Key, ...]
) -> Iterator[FieldProblem]:
    types = get_type_hints(kind, include_extras=True)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, field in fields.items():
        if name in value:
            yield from problems_in(value[name], types[field.name], (*keys, name))
        elif field.required:
            yield FieldProblem((*keys, name), "required")
    for name in value:
        if name not in fields:
            yield FieldProblem((*keys, name), "unknown field")


def _bare(kind: Any) -> Any:
    """Return a type without metadata and without null."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    rest = [one for one in get_args(kind) if one is not type(None)]
    return _bare(rest[0]) if type(None) in get_args(kind) and len(rest) == 1 else kind


def _is_struct(kind: Any) -> bool:
    bare = _bare(kind)
    return isinstance(bare, type) and issubclass(bare, Struct)
