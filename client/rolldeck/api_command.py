"""Send any request to the platform's API: the command line does whatever the dashboard does."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
ASKING: Final = frozenset({"GET", "DELETE"})
"""Methods whose fields travel in the address; those of others are a JSON object."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what describes a request."""
    parser.add_argument("method", choices=METHODS, type=str.upper, metavar="METHOD")
    parser.add_argument("path", metavar="PATH", help="such as runs/demo/pause")
    parser.add_argument(
        "fields",
        nargs="*",
        type=_field,
        metavar="FIELD=VALUE",
        help="of the body, or of the query of a GET or DELETE; a VALUE that is JSON is taken as it",
    )
    parser.add_argument(
        "--body", type=_body, metavar="JSON", help="the whole body; @FILE reads it, - from stdin"
    )


def call(connection: Connection, args: argparse.Namespace) -> object:
    """Send the request and return the decoded answer; None for an empty one."""
    return connection.json(_call_of(args.method, args.path, args.fields, args.body))


def shown(answer: object) -> str:
    """Return an answer as JSON, whether or not --json asked for it."""
    return json.dumps(answer, indent=2)


def _call_of(method: str, path: str, fields: Sequence[tuple[str, Any]], body: object) -> Call:
    place = "/api/" + path.lstrip("/").removeprefix("api/")
    if method in ASKING and body is None:
        query = {name: _as_text(value) for name, value in fields}
        return Call(method=method, path=place, params=query or None)
    if body is None or isinstance(body, dict):
        return Call(method=method, path=place, json=(body or {}) | dict(fields))
    if fields:
        detail = "fields go into a body that is an object, and this one is none"
        raise RolldeckError(status=0, code="misused", detail=detail)
    return Call(method=method, path=place, json=body)


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


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
