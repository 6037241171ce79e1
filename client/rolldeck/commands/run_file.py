"""A run as a YAML file, with the line of each field for errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from rolldeck.commands.base import Failure, Row
from rolldeck.errors import InvalidRequestError
from rolldeck.http import Call, Connection

FIELDS: Final = (
    "name",
    "kind",
    "preset",
    "project",
    "uses_project_defaults",
    "tags",
    "lenient",
    "start",
)
"""Fields of a run that are no sections of its configuration."""
Path_ = tuple[str, ...]


@dataclass
class RunFile:
    """Fields and configuration of a new run, and the lines that they stand in."""

    file: str = ""
    fields: Row = field(default_factory=dict)
    config: Row = field(default_factory=dict)
    lines: dict[Path_, int] = field(default_factory=dict)
    assigned: set[Path_] = field(default_factory=set)
    """Paths of the values that `set` has replaced."""

    @classmethod
    def read(cls, path: Path) -> "RunFile":
        """Read a file in YAML or JSON.

        Raises:
            Failure: If it is no mapping of values that JSON has.
            OSError: If it cannot be read.
        """
        text, yaml = path.read_text("utf-8"), YAML(typ="safe", pure=True)
        try:
            node, value = yaml.compose(text), yaml.load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f"{path}:{mark.line + 1}" if mark else str(path)
            problem = " ".join((error.problem or "not YAML").split())
            raise Failure(f"{place}: {problem}") from error
        except YAMLError as error:
            raise Failure(f"{path}: not YAML: {' '.join(str(error).split())}") from error
        if not isinstance(node, MappingNode) or not isinstance(value, dict):
            raise Failure(f"{path}: not a mapping of fields such as 'preset: cartpole'")
        lines = dict(_lines(node, ()))
        _check(value, (), path, lines)
        given = {name: value.pop(name) for name in FIELDS if name in value}
        return cls(str(path), given, value, lines)

    def set(self, words: Sequence[str]) -> None:
        """Apply assignments such as ``fleet.num_workers=4``.

        Raises:
            UsageError: If a word is no assignment.
        """
        for word in words:
            dotted, has_value, text = word.partition("=")
            *parents, last = names = dotted.split(".")
            if not has_value or not all(names):
                raise click.UsageError(f"--set {word}: not FIELD=VALUE, as fleet.num_workers=4")
            value = json_or_text(text)
            if len(names) == 1 and last in FIELDS:
                self.fields[last] = value
                self.assigned.add((last,))
                continue
            place = self.config
            for name in parents:
                inner = place.setdefault(name, {})
                if not isinstance(inner, dict):
                    raise click.UsageError(f"--set {word}: {name} is {inner!r}, not a section")
                place = inner
            place[last] = value
            self.assigned.add(tuple(names))

    def body(self) -> Row:
        """Return the body of a request to create the run."""
        return self.fields | ({"config": self.config} if self.config else {})

    def send(self, connection: Connection, path: str, body: Row, *, seconds: float = 0) -> Any:
        """Send the run, and return the answer.

        Raises:
            Failure: If fields are invalid; one line for each, with file, line and nearest key.
            RolldeckError: For another refusal.
        """
        call = Call(method="POST", path=path, json=body, wait_seconds=seconds)
        try:
            return connection.json(call)
        except InvalidRequestError as refusal:
            problems = [(each.field, each.message) for each in refusal.errors]
            if not problems:
                raise
            schema = _schema(connection) if any("unknown" in text for _, text in problems) else {}
            texts = [self._problem(name, text, schema) for name, text in problems]
            raise Failure("\n".join(texts)) from refusal

    def _place(self, keys: Path_) -> str:
        if keys in self.assigned:
            return "--set "
        return f"{self.file}:{self.lines[keys]}: " if keys in self.lines else ""

    def _problem(self, name: str, text: str, schema: Row) -> str:
        keys = tuple(name.removeprefix("config.").split("."))
        place = next((each for n in range(len(keys), 0, -1) if (each := self._place(keys[:n]))), "")
        near = ""
        if "unknown field" in text:
            known = [*_names(schema, schema, keys[:-1]), *(FIELDS if len(keys) == 1 else ())]
            matches = get_close_matches(keys[-1], known, n=1, cutoff=0.5)
            near = f"; did you mean {'.'.join((*keys[:-1], matches[0]))}?" if matches else ""
        return f"{place}{'.'.join(keys)}: {text}{near}"


def json_or_text(text: str) -> Any:
    """Return the value of a text in JSON, or the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _lines(node: Node, keys: Path_) -> Iterator[tuple[Path_, int]]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            inner = (*keys, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _lines(value, inner)
    elif isinstance(node, SequenceNode):
        for number, item in enumerate(node.value):
            inner = (*keys, str(number))
            yield inner, item.start_mark.line + 1
            yield from _lines(item, inner)


def _check(value: object, keys: Path_, path: Path, lines: Mapping[Path_, int]) -> None:
    """Refuse values that JSON does not have, such as dates."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                line = lines.get((*keys, str(key)), lines.get(keys, 1))
                raise Failure(f"{path}:{line}: the key {key!r} is no text; write it in quotes")
            _check(inner, (*keys, key), path, lines)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _check(inner, (*keys, str(number)), path, lines)
    elif not isinstance(value, str | int | float | bool | None):
        kind = type(value).__name__
        raise Failure(f"{path}:{lines.get(keys, 1)}: {'.'.join(keys)} is a {kind}; quote it")


def _schema(connection: Connection) -> Row:
    answer = connection.json(Call(method="GET", path="/api/v1/run-config-schema"))
    schema: Row = answer["schema"]
    return schema


def _names(schema: Row, root: Row, keys: Path_) -> list[str]:
    """Return the names of the fields below a path of a JSON schema."""
    if "$ref" in schema:
        found: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found.get(name, {})
        return _names(found, root, keys)
    alternatives = [*schema.get("anyOf", ()), *schema.get("allOf", ())]
    if alternatives:
        return [name for each in alternatives for name in _names(each, root, keys)]
    if not keys:
        return [*schema.get("properties", ())]
    inner = schema.get("properties", {}).get(keys[0])
    if inner is None:
        inner = schema.get("items") if keys[0].isdigit() else schema.get("additionalProperties")
    return _names(inner, root, keys[1:]) if isinstance(inner, dict) else []
