"""The OpenAPI document, with the live sockets described from the Structs that they send.

OpenAPI does not cover websockets, so their description has two parts: their schemas are among the
components, where the generator of the dashboard's types reads them, and ``x-sockets`` lists the
messages of each path.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from django.http import HttpResponse
from drf_spectacular.views import SpectacularJSONAPIView
from msgspec import UNSET, Struct, UnsetType
from rest_framework.request import Request

from runs.access.api.permissions import Anyone
from runs.live import schemas as wire
from runs.live.rules import ME
from web.http.openapi import REF, schema_components
from web.live import parts

_documents: Final[dict[str, str | bytes]] = {}
_lock: Final = threading.Lock()
EXAMPLES: Final = Path(__file__).with_name("api_examples.json")
"""Request and answer by operation; `tests/api/test_api_examples.py` writes and checks them."""


class ApiDocument(SpectacularJSONAPIView):
    """The document of the API, the same for every caller and query."""

    permission_classes = [Anyone]

    def _get_schema_response(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        kind = str(renderer.media_type)
        with _lock:  # concurrent first requests wait for one generator
            if kind not in _documents:
                data = super()._get_schema_response(request).data  # type: ignore[no-untyped-call]
                _documents[kind] = renderer.render(data, kind, {})
        return HttpResponse(_documents[kind], content_type=kind)


RUN: Final = "run"
"""Key for all topics ``run:<name>``, which share one schema."""
MESSAGES: Final[dict[str, Any]] = {
    "PageMessage": wire.PageMessage,
    "PageFrame": wire.PageFrame,
    "ControlFrame": wire.ControlFrame,
}
SOCKETS: Final[dict[str, dict[str, str]]] = {
    "/ws/live": {"sends": "PageMessage", "receives": "PageFrame"},
    "/ws/runs/{run}/control": {"receives": "ControlFrame"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """Types of a topic's frames, by the names of its parts and series."""

    parts: Mapping[str, Any]
    series: Mapping[str, Any]


def topic_shapes() -> dict[str, TopicShape]:
    """Return the shape of each topic, as declared by the readers of its parts and series."""
    of_runs = TopicShape(parts=parts.shapes(parts.PARTS), series=parts.shapes(parts.SERIES))
    of_the_server = {
        topic: TopicShape(parts=parts.shapes(readers), series={})
        for topic, readers in parts.GLOBAL_PARTS.items()
    }
    of_people = TopicShape(parts=parts.shapes(parts.OWN_PARTS), series={})
    return {RUN: of_runs, ME: of_people, **of_the_server}


def describe_sockets(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the sockets to an OpenAPI document; a postprocessing hook of its generator."""
    # One Struct that references the contents of every topic.
    topics = _struct(
        "LiveTopics",
        {name: _topic(name, shape) for name, shape in topic_shapes().items()},
        doc=f"Every topic; `{RUN}` stands for `{RUN}:<name>`.",
    )
    shapes = [topics, *MESSAGES.values()]
    (_, *messages), components = schema_components(shapes)
    components = dict(zip(MESSAGES, messages, strict=True)) | components
    known: dict[str, Any] = result["components"]["schemas"]
    result["components"]["schemas"] = dict(sorted((components | known).items()))
    result["x-sockets"] = {
        path: {direction: {"$ref": REF.format(name=name)} for direction, name in socket.items()}
        for path, socket in SOCKETS.items()
    }
    return result


def add_examples(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the examples to an OpenAPI document; a postprocessing hook of its generator."""
    examples: dict[str, Any] = json.loads(EXAMPLES.read_text())
    for methods in result["paths"].values():
        for operation in methods.values():
            example = examples.get(operation["operationId"])
            if example is None:
                continue
            answer = operation["responses"][example["status"]]
            answer["content"]["application/json"]["examples"] = _named(example["answer"])
            if "request" in example:
                request = operation["requestBody"]["content"]["application/json"]
                request["examples"] = _named(example["request"])
    return result


def _named(value: Any) -> dict[str, Any]:
    # Generators of types write a single `example` into comments, but not named ones.
    return {"example": {"value": value}}


def _topic(name: str, shape: TopicShape) -> type[Struct]:
    title = f"{name.title().replace('_', '')}Topic"
    contents = {
        word: _struct(
            f"{title}{word.capitalize()}",
            # A delta holds the changed fields, a snapshot all readable ones.
            {field: one | UnsetType for field, one in fields.items()},
            doc=f"The {word} of the topic `{name}`; a frame has some of them.",
        )
        for word, fields in (("parts", shape.parts), ("series", shape.series))
    }
    return _struct(title, contents, doc=f"Contents of frames of the topic `{name}`.")


def _struct(name: str, fields: Mapping[str, Any], *, doc: str) -> type[Struct]:
    defined: list[Any] = [
        (field, shape, UNSET) if UnsetType in getattr(shape, "__args__", ()) else (field, shape)
        for field, shape in fields.items()
    ]
    return msgspec.defstruct(
        name, defined, kw_only=True, namespace={"__doc__": doc}, module=__name__
    )
