"""Teach the OpenAPI schema our message types and our tokens."""

from typing import Any

import msgspec
from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
)
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent
from drf_spectacular.utils import OpenApiParameter

from runs.wire import Problem

REF = "#/components/schemas/{name}"
REASON = OpenApiParameter("reason", description="Why, for the audit; at most 2,000 letters.")


class StructSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Use a msgspec Struct as request or response of ``extend_schema``."""

    target_class = "msgspec.Struct"
    match_subclasses = True

    def get_name(self, auto_schema: Any, direction: Any) -> str | None:
        """Return the component's name."""
        return str(self.target.__name__)

    def get_identity(self, auto_schema: Any, direction: Any) -> ComponentIdentity:
        """Return what makes two components the same: their name."""
        return ComponentIdentity(self.target.__name__)  # type: ignore[no-untyped-call]

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        """Return the Struct's JSON Schema, its parts as components of their own."""
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
    """Describe how tokens are shown."""

    target_class = "runs.api.authentication.TokenAuthentication"
    name = ["token", "tokenAsPassword"]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, Any]]:
        """Return one scheme for each way to show a token."""
        return [{"type": "http", "scheme": "bearer"}, {"type": "http", "scheme": "basic"}]


def problems(*statuses: int) -> dict[tuple[int, str], type[Problem]]:
    """Return the error answers of a view, for ``extend_schema(responses=...)``."""
    return {(status, "application/problem+json"): Problem for status in statuses}
