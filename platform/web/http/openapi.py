"""OpenAPI descriptions of messages, credentials and errors."""

from typing import Any

import msgspec
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
        _, components = msgspec.json.schema_components([self.target], ref_template=REF)
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
