"""Tensors stored by key: what is stored, read, renamed and deleted, and what is refused."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from rest_framework.test import APIClient

from buffer.payloads.services import objects
from buffer.tensors.models import StoredTensor, TensorObject
from buffer.tensors.services import remove_unused_objects
from config.backups.contents import new_session
from rolldeck import safetensors, tensor_store
from rolldeck.errors import ConflictError, InvalidMessageError, NotFoundError
from rolldeck.tensor_store import TensorStore, Value, bytes_value
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.deletion import delete_run, deletion_size, remove_deleted_runs
from tests.factories import NOON, bearer, make_run, make_token
from tests.live_server import serving

pytestmark = pytest.mark.django_db(transaction=True)

SMALL = {"0@ids": np.arange(6, dtype=np.int64).reshape(2, 3), "0@mask": np.ones((), np.bool_)}
LARGE = {f"{n}@logits": np.full((1000, 40), n, np.float32) for n in range(4)}


class Server:
    def __init__(self) -> None:
        self.run: Run = make_run(name="post", kind="outside", status="running")
        self.trainer = bearer("trainer", run=self.run)

    def put(self, body: bytes) -> Any:
        return APIClient().put(
            "/api/v1/runs/post/tensors",
            body,
            content_type="application/octet-stream",
            headers=self.trainer,
        )

    def post(self, verb: str, content: Any) -> Any:
        address = f"/api/v1/runs/post/tensors/{verb}"
        return APIClient().post(address, content, format="json", headers=self.trainer)

    def get(self, query: str = "") -> Any:
        return APIClient().get(f"/api/v1/runs/post/tensors{query}", headers=self.trainer).json()

    def keys(self) -> list[str]:
        return [row["key"] for row in self.get()["results"]]

    def arrays(self, *keys: str) -> dict[str, Any]:
        return safetensors.decode(self.post("read", {"keys": keys}).content)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.mark.parametrize("arrays", [SMALL, LARGE])
def test_stored_tensors_are_read_byte_for_byte(server: Server, arrays: dict[str, Any]) -> None:
    stored = server.put(safetensors.encode(arrays))

    size = sum(array.nbytes for array in arrays.values())
    assert (stored.status_code, stored.json()) == (200, {"keys": len(arrays), "size_bytes": size})
    found = server.arrays(*reversed(arrays))
    assert list(found) == list(reversed(arrays))
    for key, array in arrays.items():
        assert (found[key].dtype, found[key].shape) == (array.dtype, array.shape)
        assert found[key].tobytes() == array.tobytes()


def test_a_repeated_push_changes_nothing(server: Server) -> None:
    body = safetensors.encode(LARGE)
    first, second = server.put(body), server.put(body)

    assert first.json() == second.json()
    assert server.keys() == sorted(LARGE)
    assert TensorObject.objects.count() == 1


def test_a_replaced_tensor_frees_its_object(server: Server) -> None:
    server.put(safetensors.encode(LARGE))
    (name,) = TensorObject.objects.values_list("name", flat=True)
    assert objects.read({name: [(0, 8)]})
    server.put(safetensors.encode({key: array + 1 for key, array in LARGE.items()}))

    assert objects.read({name: [(0, 8)]}) == {}
    assert server.arrays("3@logits")["3@logits"][0, 0] == 4


def test_the_list_has_pages_and_prefixes(server: Server) -> None:
    server.put(safetensors.encode({**SMALL, "10@ids": SMALL["0@ids"]}))

    first = server.get("?limit=2")
    rest = server.get(f"?limit=2&cursor={first['next']}")
    assert [row["key"] for row in first["results"] + rest["results"]] == sorted([*SMALL, "10@ids"])
    (row,) = server.get("?prefix=10@")["results"]
    assert (row["dtype"], row["shape"], row["size_bytes"]) == ("I64", [2, 3], 48)


def test_deleted_tensors_are_gone(server: Server) -> None:
    server.put(safetensors.encode({**SMALL, **LARGE}))

    deleted = server.post("delete", {"keys": ["1@logits", "unknown"], "prefixes": ["0@"]})
    assert deleted.json() == {"keys": 4}
    assert server.keys() == ["2@logits", "3@logits"]
    assert server.post("delete", {"prefixes": ["0@"]}).json() == {"keys": 0}
    server.post("delete", {"prefixes": ["2", "3"]})
    assert not TensorObject.objects.exists()


def test_moved_tensors_have_new_keys(server: Server) -> None:
    server.put(safetensors.encode(SMALL))

    assert server.post("move", {"moves": {"0@": "b/7@"}}).json() == {"keys": 2}
    assert server.keys() == ["b/7@ids", "b/7@mask"]
    assert server.post("move", {"moves": {"0@": "b/7@"}}).json() == {"keys": 0}
    assert server.arrays("b/7@ids")["b/7@ids"].tobytes() == SMALL["0@ids"].tobytes()


@pytest.mark.parametrize(
    ("moves", "status", "code"),
    [
        ({"0@ids": "0@mask"}, 409, "tensor_exists"),
        ({"0": "1", "0@": "2"}, 422, "invalid_data"),
        ({"0@": "x" * 500}, 422, "invalid_data"),
        ({"": "x"}, 422, "invalid_data"),
    ],
)
def test_a_refused_move_renames_nothing(
    server: Server, moves: dict[str, str], status: int, code: str
) -> None:
    server.put(safetensors.encode(SMALL))

    refused = server.post("move", {"moves": moves})
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert server.keys() == sorted(SMALL)


def file_of(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
WHOLE = safetensors.encode(LARGE)
INVALID = {
    "empty": (b"", "at least 8 required"),
    "cut short": (WHOLE[:-1], "its header describes"),
    "trailing bytes": (WHOLE + b"\0", "its header describes"),
    "header cut short": (WHOLE[:20], "exceeds the file"),
    "unknown dtype": (file_of({"a": ENTRY | {"dtype": "F33"}}, b"\0" * 8), "'F33'"),
    "wrong dtype": (file_of({"a": ENTRY | {"dtype": "F64"}}, b"\0" * 8), "do not fit"),
    "wrong shape": (file_of({"a": ENTRY | {"shape": [3]}}, b"\0" * 8), "do not fit"),
    "no tensors": (file_of({}, b""), "no tensors"),
    "empty key": (file_of({"": ENTRY}, b"\0" * 8), "0 characters"),
    "long key": (file_of({"a" * 501: ENTRY}, b"\0" * 8), "501 characters"),
    "NUL": (file_of({"a\0": ENTRY}, b"\0" * 8), "not allowed"),
    "many keys": (
        file_of(
            {f"{n}": ENTRY | {"shape": [0], "data_offsets": [0, 0]} for n in range(8193)},
            b"",
        ),
        "at most 8192",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_body_stores_nothing(server: Server, name: str) -> None:
    body, message = INVALID[name]

    refused = server.put(body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_data")
    assert message in refused.json()["detail"]
    assert not TensorObject.objects.exists()
    assert not StoredTensor.objects.exists()


def test_unknown_keys_are_named(server: Server) -> None:
    server.put(safetensors.encode(SMALL))

    refused = server.post("read", {"keys": ["0@ids", "1@ids", "2@ids"]})
    assert (refused.status_code, refused.json()["code"]) == (404, "no_tensor")
    assert "2 of 3 keys do not exist, the first is '1@ids'" in refused.json()["detail"]


def test_tensors_beyond_the_size_of_a_body_are_read_in_parts(server: Server, settings: Any) -> None:
    server.put(WHOLE)
    settings.ROLLDECK_MAX_BODY_BYTES = 200_000

    refused = server.post("read", {"keys": list(LARGE)})
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert server.arrays("0@logits")["0@logits"].nbytes == 160_000


def test_a_full_run_and_a_full_disk_refuse_a_push(server: Server, settings: Any) -> None:
    server.put(WHOLE)
    settings.ROLLDECK_MAX_RUN_BYTES = 600_000
    full = server.put(safetensors.encode(SMALL))
    server.post("delete", {"keys": list(LARGE)[:3]})
    still_full = server.put(safetensors.encode(SMALL))
    server.post("delete", {"keys": list(LARGE)[3:]})
    freed = server.put(safetensors.encode(SMALL))
    settings.ROLLDECK_MAX_RUN_BYTES, settings.ROLLDECK_MIN_FREE_DISK_BYTES = 1 << 40, 1 << 60
    low = server.put(safetensors.encode(SMALL))

    assert (full.status_code, full.json()["code"]) == (429, "over_quota")
    assert (still_full.status_code, freed.status_code) == (429, 200)
    assert (low.status_code, low.json()["code"]) == (507, "disk_full")
    assert server.keys() == sorted(SMALL)


def test_an_ended_run_keeps_its_tensors_and_accepts_none(server: Server) -> None:
    server.put(safetensors.encode(SMALL))
    Run.objects.filter(pk=server.run.pk).update(status="completed")

    assert server.put(WHOLE).status_code == 409
    assert server.arrays("0@ids")["0@ids"].shape == (2, 3)


def test_a_damaged_object_is_reported(server: Server) -> None:
    server.put(safetensors.encode(SMALL))
    row = TensorObject.objects.get()
    TensorObject.objects.update(content=bytes(row.content[:-1]) + b"\7")

    refused = server.post("read", {"keys": list(SMALL)})
    assert (refused.status_code, refused.json()["code"]) == (410, "tensor_lost")


def test_objects_of_interrupted_pushes_are_removed(server: Server) -> None:
    server.put(WHOLE)
    now = datetime.now(UTC)
    name = "tensors-0/interrupted"
    TensorObject.objects.create(run=server.run, name=name, size_bytes=1, created_at=now)
    objects.write(name, [b"x"])

    assert remove_unused_objects(now=now) == 0
    later = now + timedelta(hours=2)
    assert remove_unused_objects(now=later) == 1
    assert objects.read({name: [(0, 1)]}) == {}
    assert server.arrays(*LARGE)


def test_objects_of_a_deleted_run_are_removed(server: Server) -> None:
    server.put(WHOLE)
    row = TensorObject.objects.get()
    assert deletion_size(server.run).size_bytes == row.size_bytes
    Run.objects.filter(pk=server.run.pk).update(status=RunStatus.STOPPED)

    delete_run(address=server.run.address, actor="user:ada", reason="old", now=NOON)
    remove_deleted_runs(clock=lambda: NOON)

    assert not TensorObject.objects.exists()
    assert not row.name or objects.read({row.name: [(0, 1)]}) == {}


def test_objects_stay_while_a_backup_copies_them(server: Server) -> None:
    server.put(WHOLE)
    with new_session() as backup:
        backup.execute("SELECT pg_advisory_lock(hashtext('rolldeck.retention'))")
        assert server.post("delete", {"keys": list(LARGE)}).status_code == 200
        row = TensorObject.objects.get()
        assert objects.read({row.name: [(0, 1)]})[row.name]
        # The end of the session would release the lock too, but a moment later.
        backup.execute("SELECT pg_advisory_unlock(hashtext('rolldeck.retention'))")

    assert remove_unused_objects(now=datetime.now(UTC) + timedelta(hours=2)) == 1
    assert objects.read({row.name: [(0, 1)]}) == {}


def test_the_codec_of_a_value_is_stored_and_returned(server: Server) -> None:
    body = safetensors.encode(SMALL, metadata={"0@ids": "msgpack"})
    stored = server.put(body)

    assert stored.status_code == 200
    assert [row["codec"] for row in server.get()["results"]] == ["msgpack", ""]
    content = server.post("read", {"keys": list(SMALL)}).content
    assert safetensors.header_of(content).metadata == {"0@ids": "msgpack"}
    unknown = server.put(safetensors.encode(SMALL, metadata={"1@ids": "msgpack"}))
    assert (unknown.status_code, "names no tensor" in unknown.json()["detail"]) == (422, True)


@pytest.fixture
def store() -> Iterator[TensorStore]:
    run = make_run(name="post", kind="outside", status="running")
    _, token = make_token("trainer", run=run)
    with serving() as url, TensorStore(url, "post", token) as store:
        yield store


def test_large_pushes_and_reads_are_divided(
    store: TensorStore, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(tensor_store, "PART_BYTES", 200_000)
    values = {f"a/{n}@x": Value(np.full(10_000, n, np.float64)) for n in range(10)}
    store.put(values)
    settings.ROLLDECK_MAX_BODY_BYTES = 170_000

    found = store.read(list(values))
    assert TensorObject.objects.count() == 5
    assert {key: value.array.tobytes() for key, value in found.items()} == {
        key: value.array.tobytes() for key, value in values.items()
    }


def test_keys_may_contain_any_character_but_nul(store: TensorStore) -> None:
    keys = ['a"b', "é/ü@ 日本", "100%_\\x", "__", "\n"]
    store.put({key: bytes_value(key.encode(), "text") for key in keys})

    assert [row["key"] for row in store.rows()] == sorted(keys, key=str.encode)
    found = store.read(keys)
    assert {key: (found[key].array.tobytes().decode(), found[key].codec) for key in keys} == {
        key: (key, "text") for key in keys
    }
    assert [row["key"] for row in store.rows("100%")] == ["100%_\\x"]
    assert store.delete(prefixes=["100%"]) == 1


def test_refusals_are_exceptions(store: TensorStore) -> None:
    store.put({"a": bytes_value(b"1", "text"), "b": bytes_value(b"2", "text")})

    with pytest.raises(NotFoundError, match="the first is 'c'"):
        store.read(["a", "c"])
    with pytest.raises(ConflictError, match="nothing was moved"):
        store.move({"a": "b"})
    assert store.move({"a": "c"}) == 1
    assert sorted(store.read(["b", "c"])) == ["b", "c"]
    assert store.delete(keys=["b", "c", "d"]) == 2


def test_small_pushes_of_several_callers_share_requests(store: TensorStore) -> None:
    values = {f"{n}@x": bytes_value(f"{n}".encode(), "text") for n in range(200)}
    pushes = [store.submit({key: value}) for key, value in values.items()]
    for push in pushes:
        push.result(timeout=60)

    assert {key: one.array.tobytes() for key, one in store.read(list(values)).items()} == {
        key: one.array.tobytes() for key, one in values.items()
    }
    assert TensorObject.objects.count() < len(values) / 4
    assert store.delete(keys=list(values)) == len(values)
    assert not TensorObject.objects.exists()


def test_an_invalid_push_fails_alone(store: TensorStore) -> None:
    good = {f"{n}@x": bytes_value(b"1", "text") for n in range(20)}
    bad = {
        "no dtype": Value(np.zeros(2, np.complex256)),
        "long" * 200: bytes_value(b"1", "text"),
    }
    pushes = {key: store.submit({key: value}) for key, value in {**good, **bad}.items()}

    errors = {key: push.exception(timeout=60) for key, push in pushes.items()}
    assert {key for key, error in errors.items() if error is not None} == bad.keys()
    assert isinstance(errors["no dtype"], InvalidMessageError)
    assert "800 characters" in str(errors["long" * 200])
    assert [row["key"] for row in store.rows()] == sorted(good)


def test_a_push_after_others_of_its_key_counts(store: TensorStore) -> None:
    pushes = [store.submit({"a": bytes_value(f"{n}".encode(), "text")}) for n in range(10)]
    for push in pushes:
        push.result(timeout=60)
    store.put({"a": bytes_value(b"last", "text")})

    assert store.read(["a"])["a"].array.tobytes() == b"last"


def test_a_closed_store_has_finished_its_pushes(store: TensorStore) -> None:
    pushes = [store.submit({f"{n}": bytes_value(b"1", "text")}) for n in range(50)]
    store.close()

    assert all(push.done() and push.exception() is None for push in pushes)
    assert StoredTensor.objects.count() == 50
