"""OpenAPI descriptions of messages, credentials and errors."""

from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc
from typing import Any

import msgspec
import msgspec.inspect
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent
from drf_spectacular.utils import OpenApiParameter

from web.http.problems import PROBLEM_TYPE, Problem

REF = "#/components/schemas/{name}"
REASON = OpenApiParameter(
    "reason",
    {"type": "string", "maxLength": 2000},
    description="Reason for the audit log; at most 2,000 characters.",
)
REQUIRED_REASON = OpenApiParameter(
    "reason",
    {"type": "string", "minLength": 1, "maxLength": 2000},
    required=True,
    description="Reason for the audit log; at most 2,000 characters.",
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    location=OpenApiParameter.HEADER,
    description="Makes a retry safe: a repeated key gets the first answer.",
)


def between(least: int, most: int, *, kind: str = "integer") -> dict[str, Any]:
    """Return the schema of a number from `least` to `most`."""
    return {"type": kind, "minimum": least, "maximum": most}


def listed(most: int) -> dict[str, Any]:
    """Return the schema of 1 to `most` values separated by commas."""
    return {"type": "string", "pattern": rf"^[^,\x00]+(,[^,\x00]+){{0,{most - 1}}}$"}


def msgpack_of(message: str) -> dict[str, Any]:
    """Return the schema of a msgpack body with a message of the client's wire format."""
    text = f"msgpack of `{message}`, defined in the Python module `rolldeck.wire`."
    return {"type": "string", "format": "binary", "description": text}


def schema_components(types: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the JSON Schemas of types, and those of all Structs in them by name.

    Times have the format `date-time`, which msgspec omits where a time zone is not required.
    """
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    # Python 3.13 and msgspec 0.23 remove the indentation of docstrings, earlier releases do not.
    for schema in components.values():
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
    for info in _structs(msgspec.inspect.multi_type_info(types)):
        properties = components.get(info.cls.__name__, {}).get("properties", {})
        for field in info.fields:
            if _has_only_times(field.type):
                _mark_times(properties.get(field.encode_name))
    return schemas, components


def _structs(found: Iterable[Any]) -> Iterator[msgspec.inspect.StructType]:
    """Yield each Struct in types, once."""
    seen: set[int] = set()
    left = list(found)
    while left:
        info = left.pop()
        if id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, msgspec.inspect.StructType):
            yield info
            left += [field.type for field in info.fields]
        left += _parts(info)


def _parts(info: Any) -> list[Any]:
    """Return the types that a union, a container or an annotated type consists of."""
    names = ("types", "item_types", "type", "item_type", "key_type", "value_type")
    found = [getattr(info, name, ()) for name in names]
    return [one for part in found for one in (part if isinstance(part, tuple) else [part])]


def _has_only_times(info: Any) -> bool:
    """Return whether the texts of a type are times."""
    inspect = msgspec.inspect
    left, times = [info], 0
    while left:
        info = left.pop()
        times += isinstance(info, inspect.DateTimeType)
        if isinstance(info, inspect.DictType):
            left.append(info.value_type)
        elif isinstance(info, inspect.UnionType | inspect.ListType | inspect.TupleType):
            left += _parts(info)
        elif isinstance(info, inspect.StrType | inspect.LiteralType | inspect.EnumType):
            return False
    return times > 0


def _mark_times(schema: Any) -> None:
    if isinstance(schema, list):
        for part in schema:
            _mark_times(part)
    elif isinstance(schema, dict):
        if schema.get("type") == "string":
            schema["format"] = "date-time"
        for part in ("anyOf", "items", "additionalProperties", "prefixItems"):
            _mark_times(schema.get(part))


class StructSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Use a msgspec Struct as request or response of ``extend_schema``."""

    target_class = "msgspec.Struct"
    match_subclasses = True

    def get_name(self, auto_schema: Any, direction: Any) -> str | None:
        """Return the component's name."""
        return str(self.target.__name__)

    def get_identity(self, auto_schema: Any, direction: Any) -> ComponentIdentity:
        """Return the identity of the component: its name."""
        return ComponentIdentity(self.target.__name__)  # type: ignore[no-untyped-call]

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        """Return the Struct's JSON Schema, with nested Structs as separate components."""
        _, components = schema_components([self.target])
        schema: dict[str, Any] = components.pop(self.target.__name__)
        for name, part in components.items():
            component = ResolvedComponent(  # type: ignore[no-untyped-call]
                name=name,
                type=ResolvedComponent.SCHEMA,
                object=ComponentIdentity(name),  # type: ignore[no-untyped-call]
                schema=part,
            )
            auto_schema.registry.register_on_missing(component)
        return schema


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Description of token credentials."""

    target_class = "runs.access.api.authentication.TokenAuthentication"
    name = ["token", "tokenAsPassword"]

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        """Return the schemes as alternatives."""
        return [{name: []} for name in self.name]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, Any]]:
        """Return one scheme per form of token credentials."""
        return [{"type": "http", "scheme": "bearer"}, {"type": "http", "scheme": "basic"}]


def problems(*statuses: int) -> dict[tuple[int, str], type[Problem]]:
    """Return the errors of a view's domain, for ``extend_schema(responses=...)``.

    Errors of credentials, parameters and bodies are derived by `OperationSchema`.
    """
    return {(status, PROBLEM_TYPE): Problem for status in statuses}
