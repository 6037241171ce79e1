"""Weights roll over the replicas of a server, one after the other."""

from collections.abc import Collection
from pathlib import Path

import httpx
import numpy as np
import pytest

from rolldeck import safetensors
from rollouts.fleet.inference.contract import InferenceFailed, Unreachable
from rollouts.fleet.inference.reloading import SglangReload, VllmReload
from rollouts.fleet.inference.replicas import Replicas, ReplicasBehind, UploadedWeights
from rollouts.fleet.inference.shared_folder import MARKER, WEIGHTS, SharedFolder

TENSORS = {"b": np.ones(3, np.float32)}


class Engine:
    """Replica that can be unreachable, or refuse the weights."""

    def __init__(self) -> None:
        self.is_reachable, self.refuses = True, False
        self.now = "default"
        self.reloads: list[str] = []

    def label(self) -> str | None:
        if not self.is_reachable:
            raise Unreachable("connection refused")
        return self.now

    def check(self, names: Collection[str]) -> None:
        assert names
        self.label()

    def reload(self, folder: Path, label: str) -> None:
        assert (folder / WEIGHTS).exists()
        if self.refuses:
            raise InferenceFailed("500 out of memory")
        self.reloads.append(label)
        self.now = label


@pytest.fixture
def engines() -> list[Engine]:
    return [Engine() for _ in range(3)]


@pytest.fixture
def folder(tmp_path: Path, engines: list[Engine]) -> SharedFolder:
    (tmp_path / WEIGHTS).write_bytes(safetensors.encode(TENSORS))
    return SharedFolder(
        tmp_path, {f"http://gpu-{at}": one for at, one in enumerate(engines)}, run="mine"
    )


def test_each_replica_is_reloaded_once(folder: SharedFolder, engines: list[Engine]) -> None:
    folder.update(TENSORS, (1, 0))
    folder.update(TENSORS, (1, 0))

    assert [engine.reloads for engine in engines] == [["mine/1/0"]] * 3
    assert folder.current() == folder.oldest() == (1, 0)


def test_an_unreachable_replica_is_named_and_reloaded_when_it_returns(
    folder: SharedFolder, engines: list[Engine]
) -> None:
    folder.update(TENSORS, (1, 0))
    engines[1].is_reachable = False

    for step in (1, 2):
        with pytest.raises(ReplicasBehind, match=r"1 of 3 replicas .*http://gpu-1: conn") as behind:
            folder.update(TENSORS, (1, step))
        assert behind.value.version == (1, step)
        assert (folder.current(), folder.oldest()) == ((1, step), (1, 0))

    engines[1].is_reachable = True
    folder.update(TENSORS, (1, 2))
    assert engines[1].reloads == ["mine/1/0", "mine/1/2"]
    assert engines[2].reloads == ["mine/1/0", "mine/1/1", "mine/1/2"]
    assert folder.current() == folder.oldest() == (1, 2)


def test_weights_are_not_in_use_before_a_replica_has_them(
    folder: SharedFolder, engines: list[Engine]
) -> None:
    for engine in engines:
        engine.is_reachable = False

    with pytest.raises(InferenceFailed, match="gpu-0: connection refused; http://gpu-1"):
        folder.update(TENSORS, (1, 0))
    assert folder.current() < (1, 0)


def test_a_refusal_ends_the_roll_before_the_other_replicas(
    folder: SharedFolder, engines: list[Engine]
) -> None:
    folder.update(TENSORS, (1, 0))
    engines[1].refuses = True

    with pytest.raises(InferenceFailed, match="http://gpu-1: 500 out of memory"):
        folder.update(TENSORS, (1, 1))

    assert [engine.now for engine in engines] == ["mine/1/1", "mine/1/0", "mine/1/0"]
    assert folder.current() == folder.oldest() == (1, 0)


def test_a_replica_that_was_started_again_gets_the_label_of_the_files(
    folder: SharedFolder, engines: list[Engine], tmp_path: Path
) -> None:
    folder.update(TENSORS, (1, 0))
    engines[2].now = "default"

    assert folder.repair()
    assert not folder.repair()
    assert [engine.now for engine in engines] == ["mine/1/0"] * 3

    engines[0].refuses = True
    with pytest.raises(InferenceFailed):
        folder.update(TENSORS, (1, 1))
    assert '"written":[1,1]' in (tmp_path / MARKER).read_text()
    engines[0].refuses, engines[2].now = False, "default"
    assert folder.repair()
    assert engines[2].now == "mine/1/1"


@pytest.mark.parametrize(
    ("reload", "path"), [(VllmReload, "/weight_info"), (SglangReload, "/model_info")]
)
@pytest.mark.parametrize(
    ("status", "body", "label"),
    [(200, {"weight_version": "mine/1/2"}, "mine/1/2"), (404, {"detail": "Not Found"}, None)],
)
def test_a_release_may_report_no_label(
    reload: type[VllmReload | SglangReload], path: str, status: int, body: object, label: str | None
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == path
        return httpx.Response(status, json=body)

    http = httpx.Client(base_url="http://gpu", transport=httpx.MockTransport(answer))

    assert reload(http).label() == label


@pytest.mark.parametrize("status", [0, 500])
def test_a_replica_without_an_engine_is_unreachable(status: int) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if not status:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(status, text="EngineCore died")

    http = httpx.Client(base_url="http://gpu", transport=httpx.MockTransport(answer))

    with pytest.raises(Unreachable):
        VllmReload(http).label()


def test_uploads_reach_each_replica_and_name_those_that_miss_them() -> None:
    put: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "gpu-1":
            raise httpx.ConnectError("refused", request=request)
        if request.method == "PUT":
            put.append(str(request.url))
        return httpx.Response(200, json={"policy_version": [1, len(put)]})

    transport = httpx.MockTransport(answer)
    urls = [f"http://gpu-{at}" for at in range(3)]
    clients = {url: httpx.Client(base_url=url, transport=transport) for url in urls}
    route = UploadedWeights(clients, run="r")

    with pytest.raises(ReplicasBehind, match=r"1 of 3 replicas .*http://gpu-1: PUT"):
        route.update(TENSORS, (1, 2))

    assert put == ["http://gpu-0/v1/weights/1/2?run=r", "http://gpu-2/v1/weights/1/2?run=r"]
    assert route.current() == (1, 2)
    assert [one.version for one in route.replicas()] == [(1, 2), None, (1, 2)]


def test_reports_name_version_and_last_contact_without_credentials(engines: list[Engine]) -> None:
    urls = ["http://me:secret@gpu-0:8000/", "https://gpu-1", "http://[::1]:9000"]
    replicas = Replicas(dict(zip(urls, engines, strict=True)))
    assert {(one.version, one.contact_seconds) for one in replicas.reports()} == {(None, None)}
    engines[1].is_reachable = False

    with pytest.raises(ReplicasBehind):
        replicas.roll((1, 4), lambda engine: engine.check(["b"]))

    first, second, third = replicas.reports()
    assert [one.address for one in (first, second, third)] == [
        "gpu-0:8000",
        "gpu-1:443",
        "[::1]:9000",
    ]
    assert (first.version, third.version, first.error) == ((1, 4), (1, 4), "")
    assert first.contact_seconds is not None
    assert 0 <= first.contact_seconds < 10
    assert (second.version, second.contact_seconds) == (None, None)
    assert second.error == "connection refused"


def test_a_replica_keeps_its_last_version_while_it_cannot_be_reached(
    folder: SharedFolder, engines: list[Engine]
) -> None:
    folder.update(TENSORS, (1, 0))
    engines[1].is_reachable = False
    with pytest.raises(ReplicasBehind):
        folder.update(TENSORS, (1, 1))

    reports = folder.replicas()

    assert [one.version for one in reports] == [(1, 1), (1, 0), (1, 1)]
    assert [bool(one.error) for one in reports] == [False, True, False]
