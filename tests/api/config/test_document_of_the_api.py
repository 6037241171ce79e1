"""The OpenAPI document describes times as such, and its server, licence and contact."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from web.http.openapi import schema_components

DOCUMENT: Final = json.loads(
    (Path(__file__).resolve().parents[3] / "docs/reference/openapi.json").read_text()
)
TIMES: Final = ("_at", "_since", "_until")
NAMES: Final = ("at", "since", "until", "time")


def fields(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield each property below a schema, with its name."""
    if isinstance(schema, list):
        for part in schema:
            yield from fields(part)
    elif isinstance(schema, dict):
        properties = schema.get("properties", {})
        if isinstance(properties, dict):
            yield from properties.items()
        for part in schema.values():
            yield from fields(part)


def texts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas of texts in that of a field."""
    if schema.get("type") == "string":
        yield schema
    for part in schema.get("anyOf", []):
        yield from texts(part)


def test_every_time_has_the_format_of_a_time() -> None:
    found = [
        (name, text)
        for name, schema in fields(DOCUMENT)
        if name.endswith(TIMES) or name in NAMES
        for text in texts(schema)
    ]

    assert len(found) > 150
    assert [name for name, text in found if text.get("format") != "date-time"] == []


def test_only_texts_that_are_times_are_marked() -> None:
    class Inner(Struct):
        at: datetime
        name: str

    class Outer(Struct):
        inner: list[Inner]
        when: datetime | UnsetType | None = UNSET
        by_name: dict[str, datetime] = {}
        either: datetime | int = 0

    _, found = schema_components([Outer])

    assert found["Inner"]["properties"] == {
        "at": {"type": "string", "format": "date-time"},
        "name": {"type": "string"},
    }
    outer = found["Outer"]["properties"]
    assert outer["when"]["anyOf"][0] == {"type": "string", "format": "date-time"}
    assert outer["by_name"]["additionalProperties"]["format"] == "date-time"
    assert {one["type"] for one in outer["either"]["anyOf"]} == {"integer", "string"}


def test_the_document_has_server_licence_and_contact() -> None:
    assert DOCUMENT["servers"] == [
        {"url": "/", "description": "The server that returns this document."}
    ]
    assert DOCUMENT["info"]["license"] == {"name": "MIT", "identifier": "MIT"}
    assert DOCUMENT["info"]["contact"]["url"].startswith("https://")
