"""Tensors that the web server acknowledged survive `kill -9` of it in mid-write."""

import threading
import time
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from buffer.tensors.models import StoredTensor
from rolldeck import safetensors
from rolldeck.errors import RolldeckError
from rolldeck.http import Call, Connection
from tests.factories import make_run, make_token
from tests.web_process import web_process

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.system,
    pytest.mark.release("starts, loads and kills servers for minutes"),
]

KILLS: Final = 4
FIELDS: Final = ("ids", "mask", "scores")
ADDRESS: Final = "/api/v1/runs/post/tensors"


def arrays_of(number: int) -> dict[str, Any]:
    """Return the tensors of a push; those of even numbers are stored as files."""
    length = 40_000 if number % 2 == 0 else 10
    numbers = np.random.default_rng(number).random((len(FIELDS), length))
    return {f"{number}@{field}": row for field, row in zip(FIELDS, numbers, strict=True)}


def put(connection: Connection, number: int) -> None:
    content = safetensors.encode(arrays_of(number))
    connection.send(Call(method="PUT", path=ADDRESS, content=content))


def push_until_it_fails(url: str, token: str, first: int, acknowledged: list[int]) -> None:
    with Connection(url, token, retry_for_seconds=0) as connection:
        for number in count(first):
            try:
                put(connection, number)
            except RolldeckError:
                return
            acknowledged.append(number)


def test_acknowledged_tensors_survive_kills(tmp_path: Path) -> None:
    run = make_run(name="post", kind="outside", status="running")
    _, token = make_token("trainer", run=run)
    acknowledged: list[int] = []
    for kill in range(KILLS):
        with web_process(tmp_path / f"{kill}.log") as web:
            threads = [
                threading.Thread(
                    target=push_until_it_fails,
                    args=(web.url, token, 100_000 * (2 * kill + thread), acknowledged),
                )
                for thread in range(2)
            ]
            before = len(acknowledged)
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 60
            while len(acknowledged) < before + 20 and time.monotonic() < deadline:
                time.sleep(0.01)
            web.kill()
            for thread in threads:
                thread.join()
            assert len(acknowledged) >= before + 20

    stored = set(StoredTensor.objects.values_list("key", flat=True))
    numbers = {int(key.partition("@")[0]) for key in stored}
    assert set(acknowledged) <= numbers
    # Pushes are stored whole, also those without an acknowledgement.
    assert stored == {f"{number}@{field}" for number in numbers for field in FIELDS}
    with (
        web_process(tmp_path / "last.log") as web,
        Connection(web.url, token) as connection,
    ):
        for number in numbers:
            expected = arrays_of(number)
            read = Call(method="POST", path=f"{ADDRESS}/read", json={"keys": list(expected)})
            found = safetensors.decode(connection.send(read).data)
            assert {key: array.tobytes() for key, array in found.items()} == {
                key: array.tobytes() for key, array in expected.items()
            }
