"""Sixty mutations of a request; each takes a valid one and random numbers."""

import copy
import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.fuzz.known_requests import RAW, Request
from web import zstd

Mutator = Callable[[Request, Random], Request]
Path = tuple[str | int, ...]
BOMB_BYTES: Final = 8 << 20


def _paths(tree: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every node; for long rows only of the first few."""
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _paths(value, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree[:4]):
            yield from _paths(value, (*path, index))


def _get(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _put(tree: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    tree = copy.deepcopy(tree)
    _get(tree, path[:-1])[path[-1]] = value
    return tree


def _some_path(request: Request, random: Random, kind: type | None = None) -> Path | None:
    """Return a random node below the root, optionally of a kind."""
    paths = [
        path
        for path in _paths(request.tree)
        if path and (kind is None or isinstance(_get(request.tree, path), kind))
    ]
    return random.choice(paths) if paths else None


def instead(value: Any) -> Mutator:
    """Replace a random value."""

    def mutate(request: Request, random: Random) -> Request:
        path = _some_path(request, random)
        return request.with_tree(value if path is None else _put(request.tree, path, value))

    return mutate


def raw_instead(as_json: bytes, as_msgpack: bytes) -> Mutator:
    """Replace a random value by bytes that no encoder writes."""

    def mutate(request: Request, random: Random) -> Request:
        path = _some_path(request, random) or ()
        raw = as_msgpack if request.is_msgpack else as_json
        return request.with_tree(_put(request.tree, path, RAW), raw=raw)

    return mutate


def wrapped(wrap: Callable[[Any], Any]) -> Mutator:
    """Nest a value in an unexpected way."""

    def mutate(request: Request, random: Random) -> Request:
        path = _some_path(request, random) or ()
        return request.with_tree(_put(request.tree, path, wrap(_get(request.tree, path))))

    return mutate


def relisted(change: Callable[[list[Any]], list[Any]]) -> Mutator:
    """Change the length or the order of a list; a request without lists becomes one."""

    def mutate(request: Request, random: Random) -> Request:
        path = _some_path(request, random, list)
        if path is None:
            return request.with_tree(change([request.tree]))
        return request.with_tree(_put(request.tree, path, change(_get(request.tree, path))))

    return mutate


def rekeyed(change: Callable[[dict[str, Any], str], dict[str, Any]]) -> Mutator:
    """Change the fields of an object."""

    def mutate(request: Request, random: Random) -> Request:
        objects = [
            path for path in _paths(request.tree) if isinstance(_get(request.tree, path), dict)
        ]
        objects = [path for path in objects if _get(request.tree, path)]
        if not objects:
            return request.with_tree({"a": request.tree})
        path = random.choice(objects)
        value = _get(request.tree, path)
        return request.with_tree(
            _put(request.tree, path, change(dict(value), random.choice(list(value))))
        )

    return mutate


def without(fields: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != key}


def renamed(fields: dict[str, Any], key: str) -> dict[str, Any]:
    return {name + "s" if name == key else name: value for name, value in fields.items()}


def shuffled_values(fields: dict[str, Any], key: str) -> dict[str, Any]:
    """Shift the values of the fields by one: other dtypes, other shapes, other rows."""
    values = list(fields.values())
    return dict(zip(fields, [values[-1], *values[:-1]], strict=True))


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def twice_a_key(request: Request, random: Random) -> Request:
    """Repeat a field; parsers may disagree on which value counts."""
    if request.is_msgpack:
        # A map of two pairs with one key.
        return request.with_body(b"\x82\xa6schema\x01\xa6schema\x01")
    at = request.body.find(b"{") + 1
    key = request.body[at:].partition(b":")[0]
    return request.with_body(request.body[:at] + key + b": null, " + request.body[at:])


def cut(request: Request, random: Random) -> Request:
    return request.with_body(request.body[: random.randrange(1, max(len(request.body), 2))])


def flipped(count: int) -> Mutator:
    def mutate(request: Request, random: Random) -> Request:
        body = bytearray(request.body)
        for _ in range(count):
            body[random.randrange(len(body))] ^= 1 << random.randrange(8)
        return request.with_body(bytes(body))

    return mutate


def inserted(what: bytes) -> Mutator:
    def mutate(request: Request, random: Random) -> Request:
        at = random.randrange(len(request.body))
        return request.with_body(request.body[:at] + what + request.body[at:])

    return mutate


def body_as(change: Callable[[bytes], bytes], **headers: str) -> Mutator:
    def mutate(request: Request, random: Random) -> Request:
        return request.with_body(change(request.body), **headers)

    return mutate


def utf_16(body: bytes) -> bytes:
    return body.decode("latin-1").encode("utf-16")


def bomb(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda body: pack(body + b" " * BOMB_BYTES)


def gzip_of(body: bytes) -> bytes:
    return gzip.compress(body, 1, mtime=0)


def chunked(request: Request, random: Random) -> Request:
    return replace(request, chunked=True)


GZIP: Final = {"Content-Encoding": "gzip"}
ZSTD: Final = {"Content-Encoding": "zstd"}

MUTATORS: Final[dict[str, Mutator]] = {
    # Another value at a random position.
    "null": instead(None),
    "true": instead(True),
    "an empty text": instead(""),
    "a word": instead("word"),
    "a number as text": instead("7"),
    "zero": instead(0),
    "minus one": instead(-1),
    "2³¹": instead(2**31),
    "2⁶³ − 1": instead(2**63 - 1),
    "2⁶⁴ − 1": instead(2**64 - 1),
    "−2⁶³": instead(-(2**63)),
    "a fraction": instead(1.5),
    "a whole float": instead(1.0),
    "minus zero": instead(-0.0),
    "almost infinite": instead(1.7e308),
    "NaN as text": instead("NaN"),
    "NUL": instead("a\x00b"),
    "other alphabets": instead("ü 漢字 \U0001f600 \u2028 \u202e"),
    "300 kB of text": instead("x" * 300_000),
    "an empty list": instead([]),
    "an empty object": instead({}),
    "a list of lists": instead([[[]], [[]]]),
    "an object": instead({"a": 1}),
    # Values that encoders do not write, including msgpack's special ones.
    "NaN": raw_instead(b"NaN", b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"),
    "minus Infinity": raw_instead(b"-Infinity", b"\xcb\xff\xf0\x00\x00\x00\x00\x00\x00"),
    "a float beyond floats": raw_instead(b"1e999", b"\xca\x7f\x80\x00\x00"),
    "400 digits": raw_instead(b"9" * 400, b"\xc7\x05\x2ahello"),
    "half a surrogate pair": raw_instead(b'"\\ud800"', b"\xa3\xed\xa0\x80"),
    "a leading zero": raw_instead(b"007", b"\xc1"),
    "a list of four billion": raw_instead(b"[" * 5000, b"\xdd\xff\xff\xff\xff"),
    "a map of four billion": raw_instead(b'{"a":' * 5000, b"\xdf\xff\xff\xff\xff"),
    "bytes of four gigabytes": raw_instead(b'"never closed', b"\xc6\xff\xff\xff\xff"),
    "a timestamp": raw_instead(b"2026-03-01T12:00:00Z", b"\xd6\xff\x00\x00\x00\x00"),
    # Other shapes.
    "in a list": wrapped(lambda value: [value]),
    "in an object": wrapped(lambda value: {"value": value}),
    "31 levels": instead(nested(31)),
    "200 levels": instead(nested(200)),
    "an element less": relisted(lambda items: items[:-1]),
    "an element twice": relisted(lambda items: [*items, *items[-1:]]),
    "2,000 elements": relisted(lambda items: (items or [0]) * (2000 // max(len(items), 1) + 1)),
    "ragged": relisted(lambda items: [*items, [items[:1], []]]),
    "a field less": rekeyed(without),
    "a field renamed": rekeyed(renamed),
    "a field more": rekeyed(lambda fields, _: fields | {"unknown": {"a": [1, None]}}),
    "a field without a name": rekeyed(lambda fields, _: fields | {"": 1, "\x00": 2}),
    "values swapped": rekeyed(shuffled_values),
    "a field twice": twice_a_key,
    # Damaged bytes.
    "cut": cut,
    "a bit": flipped(1),
    "many bits": flipped(24),
    "no UTF-8": inserted(b"\xff\xfe"),
    "a byte order mark": body_as(lambda body: b"\xef\xbb\xbf" + body),
    "UTF-16": body_as(utf_16),
    "twice the body": body_as(lambda body: body + body),
    # Another envelope.
    "gzip": body_as(gzip_of, **GZIP),
    "a gzip bomb": body_as(bomb(gzip_of), **GZIP),
    "a zstd bomb": body_as(bomb(zstd.compress), **ZSTD),
    "half a zstd frame": body_as(lambda body: zstd.compress(body)[:-3], **ZSTD),
    "not what the header says": body_as(bytes, **GZIP),
    "in pieces": chunked,
}
