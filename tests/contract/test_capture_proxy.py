"""Capture agent programs that only know an OpenAI base URL.

OpenAI's own client talks to our proxy, the proxy to our inference server and to the platform, each
over real sockets; the trainer's batch shows the captured data.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
import uvicorn

from buffer.capture.models import CaptureSession
from buffer.capture.services import assembled, score_sessions
from buffer.items.models.items import TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import content_head
from rolldeck.http import Connection
from rollouts.fleet.capture.call_store import PlatformCallStore
from rollouts.fleet.capture.proxy import CaptureProxy
from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import CharTokenizer, ChatFormat
from runs.lifecycle.models.runs import Run
from tests import processes
from tests.factories import NOON, make_run, make_token
from tests.live_server import serving
from tests.unit.rollouts.fleet.engine.small_models import small_model

pytestmark = pytest.mark.django_db(transaction=True)

TOKENIZER = CharTokenizer(
    "abcdefghijklmnopqrstuvwxyz 0123456789:\n",
    ChatFormat(user="user: {}\n", assistant="ai: {}\n", answer="ai: "),
)
HELLO: list[Any] = [{"role": "user", "content": "hello"}]


@contextmanager
def on_a_port(app: Any, *, lifespan: Any = "off") -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan=lifespan))
    runner = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    runner.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        runner.join(10)


@dataclass(frozen=True, slots=True)
class Stand:
    """A run with its capturing proxy and the servers behind it."""

    run: Run
    proxy: str
    platform: str

    def agent(self, session: str, key: str = "secret") -> openai.OpenAI:
        base = f"{self.proxy}/sessions/{session}/v1"
        return openai.OpenAI(base_url=base, api_key=key, max_retries=0)

    def score(self, **scores: float) -> Any:
        return score_sessions(
            run=Run.objects.get(pk=self.run.pk), scores=scores, producer="judge", now=NOON
        )


@pytest.fixture
def stand() -> Iterator[Stand]:
    run = make_run(name="agents", kind="outside", status="running")
    Run.objects.filter(pk=run.pk).update(batch_size=2, max_token_len=256)
    model = small_model(vocab_size=TOKENIZER.vocab_size, max_position_embeddings=256)
    engine = Engine(model, rows=4, version=(0, 0), tokenizer=TOKENIZER)
    thread = EngineThread(engine, context=256)
    api = OpenAiApi(thread, tokenizer=TOKENIZER, model="policy", context=256)
    with serving() as platform, on_a_port(api.app) as upstream:
        connection = Connection(platform, make_token("env", run=run)[1], retry_for_seconds=1.0)
        store = PlatformCallStore(connection, run.name)
        proxy = CaptureProxy(upstream=f"{upstream}/v1", store=store, api_key="secret")
        with on_a_port(proxy.app, lifespan="on") as url:
            yield Stand(run, url, platform)
    thread.close()


def group() -> dict[str, Any]:
    (row,) = TrajectoryGroup.objects.all()
    content: dict[str, Any] = json.loads(content_head(ItemKind.GROUPS, row.pk, 1 << 20))
    return content


def trained(row: dict[str, Any], place: int) -> list[int]:
    return [mask for mask in row["masks"][place] if mask >= 0]


def spoken(stand: Stand, session: str, seed: int) -> Any:
    """Generate five tokens; an end token has no text, so a text-based capture would lose it."""
    return stand.agent(session).chat.completions.create(
        model="policy", messages=HELLO, max_tokens=5, seed=seed, extra_body={"ignore_eos": True}
    )


def test_two_turns_of_an_agent_are_one_sequence_with_its_own_tokens_trained(stand: Stand) -> None:
    session, completion = next(
        (name, completion)
        for seed in range(100)
        if len((completion := spoken(stand, name := f"s{seed}", seed)).choices[0].message.content)
        == 5
    )
    agent = stand.agent(session)
    answer = {"role": "assistant", "content": completion.choices[0].message.content}
    more = [*HELLO, answer, {"role": "user", "content": "go on"}]
    agent.chat.completions.create(model="policy", messages=more, max_tokens=4, seed=2)

    receipt = stand.score(**{session: 1.0})

    row = group()
    assert (receipt.sequences, receipt.gaps) == (1, {})
    assert TOKENIZER.decode(trained(row, 0)[:5]) == completion.choices[0].message.content
    assert receipt.tokens == len(trained(row, 0)) > 5
    for masks, logprobs in zip(row["masks"], row["inference_logprobs"], strict=True):
        for mask, logprob in zip(masks, logprobs, strict=True):
            assert (logprob <= 0) if mask >= 0 else (logprob == 1.0)
    assert (row["epoch"], row["policy_step"]) == (0, 0)


def test_a_stream_is_captured_before_it_ends_for_the_agent(stand: Stand) -> None:
    stream = stand.agent("two").chat.completions.create(
        model="policy", messages=HELLO, max_tokens=6, stream=True, seed=3
    )
    text = "".join(piece.choices[0].delta.content or "" for piece in stream if piece.choices)

    assert CaptureSession.objects.get(name="two").calls == 1
    stand.score(two=0.5)
    assert TOKENIZER.decode([t for t in trained(group(), 0) if t != TOKENIZER.end]) == text


def test_a_completion_with_several_choices_is_several_sequences(stand: Stand) -> None:
    stand.agent("three").completions.create(model="policy", prompt="abc", max_tokens=3, n=3, seed=4)

    assert stand.score(three=0.0).sequences == 3


def test_an_agent_that_hangs_up_leaves_a_gap(stand: Stand) -> None:
    stream = stand.agent("four").chat.completions.create(
        model="policy",
        messages=HELLO,
        max_tokens=200,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    next(iter(stream))
    stream.close()

    deadline = time.monotonic() + 60
    while not CaptureSession.objects.filter(name="four").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "disconnected" in assembled(CaptureSession.objects.get()).gaps[0]


def test_an_answer_that_the_platform_refuses_does_not_reach_the_agent(stand: Stand) -> None:
    Run.objects.filter(pk=stand.run.pk).update(status="completed")

    with pytest.raises(openai.ConflictError, match="run_not_accepting"):
        stand.agent("five").completions.create(model="policy", prompt="abc", max_tokens=3)

    assert not CaptureSession.objects.exists()


def test_refusals_have_the_format_of_openai(stand: Stand) -> None:
    with pytest.raises(openai.AuthenticationError):
        stand.agent("six", key="wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        stand.agent("six").completions.create(model="other", prompt="abc")
    bad = httpx.post(
        f"{stand.proxy}/sessions/six/v1/completions",
        content=b"{",
        headers={"Authorization": "Bearer secret"},
        timeout=60,
    )
    odd = httpx.get(
        f"{stand.proxy}/sessions/a%20b/v1/models",
        headers={"Authorization": "Bearer secret"},
        timeout=60,
    )

    assert (bad.status_code, odd.status_code) == (400, 404)
    assert "not valid JSON" in bad.json()["error"]["message"]
    assert [model.id for model in stand.agent("six").models.list()] == ["policy"]
    assert not CaptureSession.objects.exists()


def proxy_command(*arguments: str, stand: Stand, token: str) -> subprocess.Popen[str]:
    code = (
        "import sys; from rollouts.fleet.capture.command import main; sys.exit(main(sys.argv[1:]))"
    )
    return processes.start(
        [sys.executable, "-c", code, "--url", stand.platform, "--retry-for", "0", *arguments],
        env=os.environ | {"ROLLDECK_TOKEN": token, "PYTHONPATH": ".:platform:client"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_prints_its_url_and_ends_on_a_signal(stand: Stand) -> None:
    token = make_token("env", run=stand.run)[1]
    upstream = ("--upstream", "http://127.0.0.1:9/v1", "--port", "0")

    wrong = proxy_command("--run", "nobody", *upstream, stand=stand, token=token)
    right = proxy_command("--run", "agents", *upstream, stand=stand, token=token)
    assert right.stdout is not None
    output = right.stdout.readline()
    right.terminate()

    assert wrong.wait(60) == 1
    assert "rolldeck proxy" in wrong.communicate()[1]
    assert "OPENAI_BASE_URL=http://127.0.0.1:" in output
    assert right.wait(60) in {0, -signal.SIGTERM}
    right.communicate()
