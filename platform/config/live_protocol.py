"""Describe the live sockets in the OpenAPI document, from the Structs that are sent.

OpenAPI has no word for sockets, so they stand in two places: their shapes among the components,
where the generator of the dashboard's types finds them, and under ``x-sockets`` what is said on
which path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from runs.api.openapi import REF
from runs.live import parts
from runs.live.deck_topics import ME
from runs.wire import live as wire

RUN: Final = "run"
"""Stands for the topics ``run:<name>``, which are all of one shape."""
MESSAGES: Final[dict[str, Any]] = {
    "PageMessage": wire.PageMessage,
    "PageFrame": wire.PageFrame,
    "ControlFrame": wire.ControlFrame,
}
SOCKETS: Final[dict[str, dict[str, str]]] = {
    "/ws/live": {"says": "PageMessage", "is_told": "PageFrame"},
    "/ws/runs/{run}/control": {"is_told": "ControlFrame"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """What the frames of a topic may hold: types by the names of its parts and series."""

    parts: Mapping[str, Any]
    series: Mapping[str, Any]


def topic_shapes() -> dict[str, TopicShape]:
    """Return the shape of each topic, as the readers of its parts and series declare it."""
    of_runs = TopicShape(
        parts=parts.shapes(parts.part_readers()), series=parts.shapes(parts.series_readers())
    )
    of_the_deck = {
        topic: TopicShape(parts=parts.shapes(parts.deck_readers(topic)), series={})
        for topic in parts.deck_topics()
    }
    of_people = TopicShape(parts=parts.shapes(parts.own_readers()), series={})
    return {RUN: of_runs, ME: of_people, **of_the_deck}


def describe_sockets(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the sockets to an OpenAPI document; a hook of its generator."""
    shapes = [_live_topics(), *MESSAGES.values()]
    (_, *messages), components = msgspec.json.schema_components(shapes, ref_template=REF)
    components = dict(zip(MESSAGES, messages, strict=True)) | components
    known: dict[str, Any] = result["components"]["schemas"]
    result["components"]["schemas"] = dict(sorted((components | known).items()))
    result["x-sockets"] = {
        path: {direction: {"$ref": REF.format(name=name)} for direction, name in socket.items()}
        for path, socket in SOCKETS.items()
    }
    return result


def _live_topics() -> type[Struct]:
    """Return one Struct that leads to the contents of every topic."""
    topics = {name: _topic(name, shape) for name, shape in topic_shapes().items()}
    return _struct("LiveTopics", topics, doc=f"Every topic; `{RUN}` stands for `{RUN}:<name>`.")


def _topic(name: str, shape: TopicShape) -> type[Struct]:
    title = f"{name.title().replace('_', '')}Topic"
    contents = {
        word: _struct(
            f"{title}{word.capitalize()}",
            # A delta has what changed, a snapshot what could be read.
            {field: one | UnsetType for field, one in fields.items()},
            doc=f"The {word} of the topic `{name}`; a frame has some of them.",
        )
        for word, fields in (("parts", shape.parts), ("series", shape.series))
    }
    return _struct(title, contents, doc=f"What frames of the topic `{name}` hold.")


def _struct(name: str, fields: Mapping[str, Any], *, doc: str) -> type[Struct]:
    defined: list[Any] = [
        (field, shape, UNSET) if UnsetType in getattr(shape, "__args__", ()) else (field, shape)
        for field, shape in fields.items()
    ]
    return msgspec.defstruct(
        name, defined, kw_only=True, namespace={"__doc__": doc}, module=__name__
    )
