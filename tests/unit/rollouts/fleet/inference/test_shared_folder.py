"""Weights in a folder that vLLM or SGLang reads."""

from collections.abc import Collection
from pathlib import Path

import httpx
import numpy as np
import pytest

from rolldeck import safetensors
from rollouts.fleet.inference.contract import InferenceFailed, label_of, version_in
from rollouts.fleet.inference.reloading import SglangReload, VllmReload
from rollouts.fleet.inference.shared_folder import MARKER, WEIGHTS, SharedFolder
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit

TENSORS = {"lm_head.weight": np.zeros((2, 3), np.float32), "b": np.ones(3, np.float32)}


class Recorder:
    """Server that records what it is asked to reload."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    def label(self) -> str | None:
        return self.labels[-1] if self.labels else "default"

    def check(self, names: Collection[str]) -> None:
        assert names

    def reload(self, folder: Path, label: str) -> None:
        assert (folder / WEIGHTS).exists()
        self.labels.append(label)


@pytest.fixture
def server() -> Recorder:
    return Recorder()


@pytest.fixture
def folder(tmp_path: Path, server: Recorder) -> SharedFolder:
    (tmp_path / WEIGHTS).write_bytes(safetensors.encode(TENSORS))
    return SharedFolder(tmp_path, {"http://gpu": server}, run="mine")


def test_the_marker_and_the_label_name_run_and_version(
    folder: SharedFolder, server: Recorder, tmp_path: Path
) -> None:
    folder.update(TENSORS, (2, 7))

    assert server.labels == ["mine/2/7"]
    assert (tmp_path / MARKER).read_text() == '{"epoch":2,"step":7,"run":"mine"}'
    assert folder.current() == (2, 7)


@pytest.mark.parametrize(
    ("tensors", "wrong"),
    [
        ({"b": TENSORS["b"]}, "lm_head.weight"),
        (TENSORS | {"c": TENSORS["b"]}, "c"),
        (TENSORS | {"b": np.ones(4, np.float32)}, "b"),
    ],
)
def test_other_names_and_shapes_are_refused_before_writing(
    folder: SharedFolder,
    server: Recorder,
    tmp_path: Path,
    tensors: dict[str, np.ndarray],
    wrong: str,
) -> None:
    before = (tmp_path / WEIGHTS).read_bytes()

    with pytest.raises(WeightsDoNotFit) as refusal:
        folder.update(tensors, (1, 0))

    assert set(refusal.value.parameters) == {wrong}
    assert (tmp_path / WEIGHTS).read_bytes() == before
    assert server.labels == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, f"contains no {WEIGHTS}"), (b"short", f"{WEIGHTS}: 5 bytes")],
)
def test_a_folder_without_readable_weights_is_refused(
    folder: SharedFolder, tmp_path: Path, content: bytes | None, reason: str
) -> None:
    (tmp_path / WEIGHTS).unlink()
    if content is not None:
        (tmp_path / WEIGHTS).write_bytes(content)

    with pytest.raises(InferenceFailed, match=reason):
        folder.update(TENSORS, (1, 0))


@pytest.mark.parametrize("text", ['{"epoch": 1, "step": 2}', "{", '{"epoch": "x"}'])
def test_a_marker_without_a_run_or_of_another_form_is_refused(
    folder: SharedFolder, tmp_path: Path, text: str
) -> None:
    (tmp_path / MARKER).write_text(text)

    with pytest.raises(InferenceFailed, match=r"rolldeck_version\.json"):
        folder.update(TENSORS, (9, 0))


def test_a_label_names_run_and_version() -> None:
    assert version_in(label_of("a/b", (1, 42)), run="a/b") == (1, 42)
    assert version_in("default", run="a") is None
    assert version_in("step/new/3", run="a") is None
    with pytest.raises(ValueError, match="another run than 'a'"):
        version_in("b/1/2", run="a")
    with pytest.raises(ValueError, match=r"has the weights 'b/1/2' of a run"):
        version_in("b/1/2", run="")


@pytest.mark.parametrize(
    ("reload", "pause", "resume"),
    [
        (VllmReload, "/pause", "/resume"),
        (SglangReload, "/pause_generation", "/continue_generation"),
    ],
)
@pytest.mark.parametrize("resumes", [True, False])
def test_a_failed_reload_keeps_its_error_and_resumes(
    tmp_path: Path,
    reload: type[VllmReload | SglangReload],
    pause: str,
    resume: str,
    *,
    resumes: bool,
) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        is_fine = request.url.path == pause or (resumes and request.url.path == resume)
        return httpx.Response(200) if is_fine else httpx.Response(500, text="out of memory")

    client = httpx.Client(base_url="http://gpu", transport=httpx.MockTransport(answer))
    with pytest.raises(InferenceFailed, match="500 out of memory") as failure:
        reload(client).reload(tmp_path, "a/1/2")

    assert [asked[0].url.path, asked[-1].url.path] == [pause, resume]
    assert {request.headers["connection"] for request in asked} == {"close"}
    assert ("generation was not resumed" in str(failure.value)) is not resumes


def test_a_release_without_labels_is_reloaded(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(404 if request.url.path == "/update_weight_version" else 200)

    client = httpx.Client(base_url="http://gpu", transport=httpx.MockTransport(answer))
    VllmReload(client).reload(tmp_path, "a/1/2")

    assert asked[-2:] == ["/update_weight_version", "/resume"]


@pytest.mark.parametrize("device", ["cpu", "cuda", None])
def test_tied_embeddings_are_refused_on_a_cpu_only(device: str | None) -> None:
    info = {"vllm_config": {"device_config": {"device": device}} if device else "text"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=info))
    server = VllmReload(httpx.Client(base_url="http://gpu", transport=transport))

    server.check(TENSORS)
    if device == "cpu":
        with pytest.raises(InferenceFailed, match=r"tied embeddings, without lm_head\.weight"):
            server.check(["b"])
    else:
        server.check(["b"])
