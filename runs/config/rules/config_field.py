"""Metadata of configuration fields, for the launch form and the API reference."""

from typing import Any

from msgspec import Meta

Condition = dict[str, Any]
"""A condition on the value at the dotted path `field`: it `is` one of some values, is `not` one of
them, or `starts` with a text."""


def described(
    title: str,
    description: str,
    *,
    unit: str = "",
    essential: bool = False,
    order: str = "",
    when: tuple[Condition, ...] = (),
    **limits: Any,
) -> Meta:
    """Return a field's JSON Schema metadata.

    Args:
        title: Label in forms.
        description: Help text.
        unit: Unit of the value.
        essential: Whether forms show the field first; the others are in collapsed sections.
        order: Path of the field with the order of an object's names.
        when: Conditions under which the field applies; all must hold.
        limits: msgspec's (`ge`, `pattern`, …).
    """
    extra: dict[str, Any] = {}
    if unit:
        extra["x-unit"] = unit
    if essential:
        extra["x-essential"] = True
    if order:
        extra["x-order"] = order
    if when:
        extra["x-when"] = list(when)
    return Meta(title=title, description=description, extra_json_schema=extra, **limits)


def applicable(*when: Condition) -> Meta:
    """Return the metadata of an object whose fields apply under conditions; all must hold."""
    return Meta(extra_json_schema={"x-when": list(when)})


def one_of(field: str, *values: object) -> Condition:
    """Return the condition that a field has one of `values`."""
    return {"field": field, "is": list(values)}


def none_of(field: str, *values: object) -> Condition:
    """Return the condition that a field has none of `values`."""
    return {"field": field, "not": list(values)}


NO_LANGUAGE = one_of("language", None)
"""The run steps environments."""
