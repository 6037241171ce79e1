"""The client of stored tensors: division of large pushes and reads, and keys with any name."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from buffer.tensors.models import TensorObject
from rolldeck import tensor_store
from rolldeck.errors import Conflict, NotFound
from rolldeck.tensor_store import TensorStore, Value, bytes_value
from tests.factories import make_run, make_token
from tests.live_server import serving

pytestmark = pytest.mark.django_db(transaction=True)


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

    with pytest.raises(NotFound, match="the first is 'c'"):
        store.read(["a", "c"])
    with pytest.raises(Conflict, match="nothing was moved"):
        store.move({"a": "b"})
    assert store.move({"a": "c"}) == 1
    assert sorted(store.read(["b", "c"])) == ["b", "c"]
    assert store.delete(keys=["b", "c", "d"]) == 2
