"""Answers that are cut off, wrongly typed, of another model or inconsistent are refused."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rollouts.fleet.engine.engine import Prompt, SamplingParams
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.dialects import (
    CompletionsDialect,
    Dialect,
    Expected,
    InvalidResponse,
    SglangDialect,
    VersionUnreported,
    VllmDialect,
)
from rollouts.fleet.inference.http_client import HttpInferenceServer
from runs.config.rules.servers import InferenceServerSettings

EXPECTED = Expected(run="mine", version=(1, 4), model="small")
COMPLETION = {
    "index": 0,
    "token_ids": [5, 6],
    "logprobs": {"token_logprobs": [-0.5, 0.0]},
    "finish_reason": "length",
}
GENERATED = {
    "index": 0,
    "token_ids": [5, 6],
    "logprobs": {"content": [{"logprob": -0.5}, {"logprob": 0.0}]},
    "finish_reason": "stop",
    "weight_versions": [
        {"version": "mine/1/4", "start": 0, "end": 1},
        {"version": "mine/1/5", "start": 1, "end": 2},
    ],
}
SGLANG = {
    "output_token_logprobs": [[-0.5, 5, None], [0.0, 6, None]],
    "finish_reason": {"type": "length", "length": 2},
    "weight_version": "mine/1/5",
}


def completed(**changed: Any) -> bytes:
    return json.dumps({"model": "small", "choices": [COMPLETION | changed]}).encode()


def generated(**changed: Any) -> bytes:
    return json.dumps({"choices": [GENERATED | changed]}).encode()


def of_sglang(**changed: Any) -> bytes:
    return json.dumps({"meta_info": SGLANG | changed}).encode()


@pytest.mark.parametrize(
    ("dialect", "content", "versions"),
    [
        (CompletionsDialect(), completed(), [(1, 4), (1, 4)]),
        (VllmDialect(), generated(), [(1, 4), (1, 5)]),
        (VllmDialect(), generated(weight_versions=None), [(1, 4), (1, 4)]),
        (SglangDialect(), of_sglang(), [(1, 4), (1, 4)]),
        (SglangDialect(), of_sglang(weight_version="mine/1/2"), [(1, 2), (1, 2)]),
    ],
)
def test_a_whole_answer_is_read(
    dialect: Dialect, content: bytes, versions: list[tuple[int, int]]
) -> None:
    [answer] = dialect.answers(content, EXPECTED)

    assert (answer.tokens, answer.logprobs) == ([5, 6], [-0.5, 0.0])
    assert answer.versions == versions


@pytest.mark.parametrize(
    ("dialect", "content", "reason"),
    [
        (CompletionsDialect(), completed()[:60], "not JSON"),
        (CompletionsDialect(), b"<html>busy</html>", "not JSON .*<html>busy"),
        (CompletionsDialect(), b"null", r"another form: .*null"),
        (CompletionsDialect(), b'{"choices": [{"index": 0}]}', r"token_ids.*\$\.choices\[0\]"),
        (CompletionsDialect(), completed(token_ids=["5", "6"]), r"choices\[0\]\.token_ids\[0\]"),
        (CompletionsDialect(), completed(token_ids=[5, -6]), r"choices\[0\]\.token_ids\[1\]"),
        (CompletionsDialect(), completed(logprobs=None), r"choices\[0\]\.logprobs"),
        (
            CompletionsDialect(),
            completed(logprobs={"token_logprobs": [-0.5]}),
            "2 tokens but 1 log probabilities",
        ),
        (
            CompletionsDialect(),
            completed(logprobs={"token_logprobs": [-0.5, 0.7]}),
            "0.7 is not a log probability",
        ),
        (CompletionsDialect(), completed(index=3), r"indices \[3\]"),
        (
            CompletionsDialect(),
            completed().replace(b"small", b"large"),
            "the model 'large' answered instead of 'small'",
        ),
        (VllmDialect(), generated(logprobs={"content": [{"logprob": "x"}]}), r"\[0\]\.logprob"),
        (VllmDialect(), generated(logprobs={"content": []}), "2 tokens but 0 log"),
        (
            VllmDialect(),
            generated(weight_versions=[{"version": "mine/1/4", "start": 0, "end": 1}]),
            "2 tokens, but versions for",
        ),
        (
            VllmDialect(),
            generated(weight_versions=[{"version": "mine/1/4", "start": 1, "end": 2}]),
            "a span from 1 to 2",
        ),
        (
            VllmDialect(),
            generated(weight_versions=[{"version": "other/1/4", "start": 0, "end": 2}]),
            "belong to another run than 'mine'",
        ),
        (SglangDialect(), of_sglang(output_token_logprobs=[[-0.5]]), r"output_token_logprobs\[0\]"),
        (SglangDialect(), of_sglang(weight_version=7), r"meta_info\.weight_version"),
    ],
)
def test_a_bad_answer_is_refused_with_its_flaw(
    dialect: Dialect, content: bytes, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as refusal:
        dialect.answers(content, EXPECTED)
    assert isinstance(refusal.value, InvalidResponse) or "another run" in reason


@pytest.mark.parametrize(
    ("dialect", "content"),
    [
        (VllmDialect(), generated(weight_versions=None)),
        (
            VllmDialect(),
            generated(weight_versions=[{"version": "default", "start": 0, "end": 2}]),
        ),
        (SglangDialect(), of_sglang(weight_version="default")),
    ],
)
def test_an_answer_of_replicas_must_name_its_weights(dialect: Dialect, content: bytes) -> None:
    expected = Expected(run="mine", version=(1, 4), is_labelled=True)

    with pytest.raises(VersionUnreported):
        dialect.answers(content, expected)


class Answering(http.server.BaseHTTPRequestHandler):
    """Server with the same answer to each request, cut off at its half if wished."""

    content = b""
    status = 200

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HttpInferenceServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.server_port}"
        client = HttpInferenceServer(
            InferenceServerSettings(kind="vllm", url=url, model="small"), is_fixed=True
        )
        yield client
        client.close()
        listener.shutdown()


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (200, generated(token_ids=["x"]), r"token_ids\[0\]"),
        (200, generated()[:80], "not JSON"),
        (404, b'{"error": {"message": "The model `small` does not exist."}}', "does not exist"),
        (200, json.dumps({"choices": []}).encode(), "0 answers received, expected 1"),
    ],
)
def test_a_failure_names_the_server(
    server: HttpInferenceServer,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    content: bytes,
    reason: str,
) -> None:
    monkeypatch.setattr(Answering, "status", status)
    monkeypatch.setattr(Answering, "content", content)
    prompt = Prompt(tokens=(1,), sampling=SamplingParams(max_tokens=2), answers=1)

    with pytest.raises(InferenceFailed, match=reason) as failure:
        server.generate([prompt], stop=threading.Event(), timeout_seconds=60)
    assert "the inference server http://127.0.0.1:" in str(failure.value)


def test_a_slow_server_is_named_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answering, "do_POST", lambda _: threading.Event().wait(3))
    prompt = Prompt(tokens=(1,), sampling=SamplingParams(max_tokens=2), answers=1)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.server_port}"
        client = HttpInferenceServer(InferenceServerSettings(kind="rolldeck", url=url))

        with pytest.raises(InferenceFailed, match=f"{url}: did not answer within the time limit"):
            client.generate([prompt], stop=threading.Event(), timeout_seconds=0.2)

        client.close()
        listener.shutdown()
