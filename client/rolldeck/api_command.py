"""Command `rolldeck api`: send any request to the platform's API."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
ASKING: Final = frozenset({"GET", "DELETE"})
"""Methods whose fields are sent in the query; other methods send a JSON object."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a request."""
    parser.add_argument("method", choices=METHODS, type=str.upper, metavar="METHOD")
    parser.add_argument("path", metavar="PATH", help="such as runs/demo/pause")
    parser.add_argument(
        "fields",
        nargs="*",
        type=_field,
        metavar="FIELD=VALUE",
        help="body field, or query parameter of GET and DELETE; VALUE is JSON if valid",
    )
    parser.add_argument(
        "--body", type=_body, metavar="JSON", help="whole body; @FILE reads a file, - reads stdin"
    )


def call(connection: Connection, args: argparse.Namespace) -> object:
    """Send the request and return the decoded response; None for an empty one."""
    method, fields, body = args.method, args.fields, args.body
    place = "/api/v1/" + args.path.lstrip("/").removeprefix("api/v1/")
    if method in ASKING and body is None:
        query = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in fields
        }
        return connection.json(Call(method=method, path=place, params=query or None))
    if body is None or isinstance(body, dict):
        body = (body or {}) | dict(fields)
    elif fields:
        detail = "fields need a JSON object as body"
        raise RolldeckError(status=0, code="misused", detail=detail)
    return connection.json(Call(method=method, path=place, json=body))


def shown(answer: object) -> str:
    """Format a response as JSON, with or without --json."""
    return json.dumps(answer, indent=2)


def _field(text: str) -> tuple[str, Any]:
    name, is_there, value = text.partition("=")
    if not is_there or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _body(text: str) -> object:
    try:
        if text == "-":
            return json.load(sys.stdin)
        return json.loads(Path(text[1:]).read_text("utf-8") if text.startswith("@") else text)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
