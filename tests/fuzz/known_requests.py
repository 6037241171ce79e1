"""The initial requests of the fuzz suite, as trees with replaceable parts."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from tests.valid_bodies import JSON_TYPE, VALID_BODIES

# Placeholder for bytes that neither JSON nor msgpack can encode; its length fits one length byte.
RAW: Final = "@@RAW@@"
BOUNDARY: Final = "fuzz-boundary"
FORM_TYPE: Final = f"multipart/form-data; boundary={BOUNDARY}"
_HEADER: Final = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
WEIGHTS: Final = len(_HEADER).to_bytes(8, "little") + _HEADER + bytes(8)
MANIFEST: Final = {
    "epoch": 1,
    "step": 0,
    "sha256": hashlib.sha256(WEIGHTS).hexdigest(),
    "size_bytes": len(WEIGHTS),
    "tensors": [{"name": "w", "dtype": "F32", "shape": [2]}],
}

CAPTURED: Final[dict[str, Any]] = {
    "key": "a call",
    "kind": "chat",
    "messages": [{"role": "user", "content": "hi"}],
    "prompt_tokens": [1, 2],
    "answers": [
        {
            "tokens": [3, 4],
            "logprobs": [-0.5, -0.25],
            "versions": [{"epoch": 0, "step": 0, "tokens": 2}],
            "message": {"role": "assistant", "content": "ho"},
        }
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: its body, and the tree that the body was encoded from."""

    name: str
    path: str
    tree: Any
    body: bytes
    content_type: str = JSON_TYPE
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    chunked: bool = False

    @property
    def is_msgpack(self) -> bool:
        """Whether the tree is encoded as msgpack."""
        return self.content_type.endswith("+msgpack")

    def with_tree(self, tree: Any, *, raw: bytes = b"") -> "Request":
        """Return the request with another tree, in which `raw` replaces RAW."""
        return replace(self, tree=tree, body=self._packed(tree, raw))

    def with_body(self, body: bytes, **headers: str) -> "Request":
        """Return the request with other bytes."""
        return replace(self, body=body, headers={**self.headers, **headers})

    def _packed(self, tree: Any, raw: bytes) -> bytes:
        if self.is_msgpack:
            packed = msgspec.msgpack.encode(_nested(tree))
            return packed.replace(bytes([0xA0 | len(RAW)]) + RAW.encode(), raw)
        text = json.dumps(tree).encode().replace(f'"{RAW}"'.encode(), raw)
        return _form(text) if self.content_type == FORM_TYPE else text


def _form(manifest: bytes) -> bytes:
    """Return a multipart body with a manifest and the weights."""
    parts = [(b'name="manifest"', manifest), (b'name="weights"; filename="weights"', WEIGHTS)]
    boundary = b"--" + BOUNDARY.encode()
    lines = [
        boundary + b"\r\nContent-Disposition: form-data; " + head + b"\r\n\r\n" + content + b"\r\n"
        for head, content in parts
    ]
    return b"".join(lines) + boundary + b"--\r\n"


def _unnested(tree: dict[str, Any], key: str) -> dict[str, Any]:
    return tree | {key: [msgspec.msgpack.decode(content) for content in tree[key]]}


def _nested(tree: Any) -> Any:
    """Return a push whose items are packed into bytes, unless they already are."""
    if not isinstance(tree, dict):
        return tree
    return {
        key: [msgspec.msgpack.encode(item) if isinstance(item, dict) else item for item in value]
        if key in {"groups", "fragments"} and isinstance(value, list)
        else value
        for key, value in tree.items()
    }


def _pushes() -> list[Request]:
    results = []
    for valid in VALID_BODIES:
        if valid.content_type == JSON_TYPE:
            tree = json.loads(valid.content)
        else:
            tree = msgspec.msgpack.decode(valid.content)
            tree = _unnested(tree, "groups" if "groups" in tree else "fragments")
        results.append(
            Request(
                name=valid.name,
                path=valid.path,
                tree=tree,
                body=valid.content,
                content_type=valid.content_type,
            )
        )
    return results


def _call(name: str, path: str, tree: Any, **fields: Any) -> Request:
    blank = Request(name=name, path=path, tree=tree, body=b"", **fields)
    return blank.with_tree(tree)


def _calls(report: Mapping[str, Any], lease: Mapping[str, Any]) -> list[Request]:
    """Return the valid calls of routes that accept other data than training data."""
    metric = {"name": "loss", "step": 3, "value": 0.25}
    run = {"name": "made", "kind": "outside", "start": True}
    config = {"environment": {"spec": "gymnasium:CartPole-v1"}}
    token = {"name": "t", "scopes": ["env"], "run": "demo", "expires_in_seconds": 60}
    alive = f"/api/v1/runs/{lease['run']}/batches/{lease['batch']}/ack"
    follower = f"/api/v1/runs/{lease['run']}/followers/harvest"
    settings = {"max_staleness": 3, "max_age_seconds": 600.5, "advantages": "rloo", "lenient": True}
    window = {"states": ["served", "dropped"], "steps": "1:9", "env_ids": [0, 1]}
    priorities = {"updates": [{"id": 1, "priority": 0.5}, {"id": 2, "priority": 2.0}]}
    return [
        _call("status-env by GET", "/atropos/demo/status-env", {"env_id": 0}, method="GET"),
        _call("disconnect-env", "/atropos/demo/disconnect-env", {"env_id": 0}),
        _call("default run", "/scored_data", json.loads(VALID_BODIES[3].content)),
        _call("register at the root", "/register", json.loads(VALID_BODIES[0].content)),
        _call("runs create", "/api/v1/runs", run),
        _call("runs create configured", "/api/v1/runs", {"name": "made", "config": config}),
        _call("ask", "/api/v1/runs/demo/pause", {"reason": "because"}),
        _call("trainer", "/api/v1/runs/demo/trainers", {"name": "t", "resume": True}),
        _call("token", "/api/v1/tokens", token),
        _call("report", "/api/v1/runs/fleet/fleet/report", dict(report)),
        _call("metrics", "/api/v1/runs/demo/metrics", {"samples": [metric, metric]}),
        _call("batches next", "/api/v1/runs/demo/batches/next", {"wait_seconds": 0}),
        _call("batches ack", alive, {"fence": lease["fence"]}),
        _call(
            "fragments fetch",
            "/api/v1/runs/fleet/fragments/fetch",
            {"count": 1, "wait_seconds": 0.0},
        ),
        _call(
            "fragments ack",
            f"/api/v1/runs/{lease['run']}/fragments/ack",
            {"batch": lease["batch"], "fence": lease["fence"]},
        ),
        _call("weights", "/api/v1/runs/fleet/weights", MANIFEST, content_type=FORM_TYPE),
        _call("run change", "/api/v1/runs/changing", settings, method="PATCH"),
        _call("priorities", "/api/v1/runs/fleet/fragments/priorities", priorities),
        _call("archive", f"/api/v1/runs/{lease['run']}/archives", window),
        _call("restoration", "/api/v1/runs/changing/restorations", {"archive": lease["archive"]}),
        _call(
            "follower",
            "/api/v1/runs/demo/followers/made",
            {"env_id": 0, "min_score": -1.5},
            method="PUT",
        ),
        _call("followed", f"{follower}/fetch", {"count": 2, "wait_seconds": 0.0}),
        _call("captured call", "/api/v1/runs/demo/captures/made/calls", CAPTURED),
        _call("capture scores", "/api/v1/runs/demo/capture-scores", {"scores": {"agent": 0.5}}),
        _call("followed ack", f"{follower}/ack", {"cursor": lease["cursor"]}),
    ]


PUSHES: Final = tuple(_pushes())
NOTHING_LEASED: Final = {"run": "demo", "batch": "0", "fence": 1, "archive": 1, "cursor": ""}
NAMES: Final = tuple(
    [request.name for request in PUSHES] + [request.name for request in _calls({}, NOTHING_LEASED)]
)


def request_named(name: str, *, report: Mapping[str, Any], lease: Mapping[str, Any]) -> Request:
    """Return a valid request."""
    return next(request for request in [*PUSHES, *_calls(report, lease)] if request.name == name)
