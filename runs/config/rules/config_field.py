"""Metadata of configuration fields, for the launch form and the API reference."""

from typing import Any

from msgspec import Meta


def described(title: str, description: str, *, unit: str = "", **limits: Any) -> Meta:
    """Return a field's JSON Schema metadata; `limits` are msgspec's (`ge`, `pattern`, …)."""
    extra = {"x-unit": unit} if unit else {}
    return Meta(title=title, description=description, extra_json_schema=extra, **limits)
