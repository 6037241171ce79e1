"""The trace of a rollout goes on in its generations, its push and its stored group."""

import http.server
import json
import threading
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from django.db import connections

from config.tracing import traced
from rolldeck import tracing
from rolldeck.groups import MSGPACK, read
from rolldeck.http import Call, Connection
from rolldeck.wire import GroupPush, GroupsReceipt
from rollouts.fleet.engine.engine import Prompt, SamplingParams
from rollouts.fleet.groups.batches import Rollout, RolloutGroup
from rollouts.fleet.groups.outbox import GroupSender, Outbox
from rollouts.fleet.inference.http_client import HttpInferenceServer
from rollouts.fleet.process import child_environment
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.capture_setup import on_a_port
from tests.factories import make_run, make_token
from tests.trace_collector import Spans, attributes, traced_process
from tests.waiting import eventually

PROMPT = Prompt(tokens=(1, 2, 3), sampling=SamplingParams(max_tokens=2), answers=2)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with traced_process(monkeypatch) as received:
        yield received


class Generating(http.server.BaseHTTPRequestHandler):
    """Server that answers each prompt with two sequences of two tokens, as `rolldeck inference`."""

    seen: Mapping[str, str] = {}

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).seen = dict(self.headers)
        choice = {
            "token_ids": [4, 5],
            "logprobs": {"token_logprobs": [-0.5, -0.5]},
            "finish_reason": "length",
            "policy_versions": [[1, 0, 2]],
        }
        body = json.dumps({"choices": [{"index": n, **choice} for n in range(2)]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HttpInferenceServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Generating) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.server_port}"
        client = HttpInferenceServer(InferenceServerSettings(kind="rolldeck", url=url))
        yield client
        client.close()
        listener.shutdown()


def rollout_group() -> RolloutGroup:
    rollout = Rollout(
        tokens=[1, 2],
        is_own=[False, True],
        logprobs=[0.0, -0.5],
        versions=[None, (1, 0)],
        reward=1.0,
        is_correct=True,
        is_truncated=False,
        prompt="1",
        response="2",
    )
    return RolloutGroup(example="a", rollouts=[rollout, rollout])


@pytest.mark.parametrize("opt_in", ["http,gen_ai_latest_experimental", "http"])
def test_a_generation_continues_the_trace_of_its_task(
    spans: Spans, server: HttpInferenceServer, monkeypatch: pytest.MonkeyPatch, opt_in: str
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", opt_in)

    with tracing.span("train sums") as task:
        server.generate([PROMPT], stop=threading.Event(), timeout_seconds=60)
    assert task is not None
    trace = f"{task.get_span_context().trace_id:032x}"
    eventually(lambda: len(spans()) == 2, 20)

    [call] = [span for span in spans() if span.name == "text_completion rolldeck"]
    assert call.trace_id.hex() == trace
    assert Generating.seen["traceparent"].split("-")[1:3] == [trace, call.span_id.hex()]
    sizes = {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "rolldeck",
        "gen_ai.request.model": "rolldeck",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
    }
    assert attributes(call) == ({} if opt_in == "http" else sizes)


def test_a_push_and_its_groups_continue_the_trace_of_the_task(spans: Spans) -> None:
    spooled: list[bytes] = []
    outbox = Outbox(spooled.append, worker="0/a")
    pushed: list[tuple[bytes, str]] = []

    def push(content: bytes, key: str) -> GroupsReceipt:
        pushed.append((content, tracing.headers()["traceparent"]))
        return GroupsReceipt(received=1, buffered=0, dropped={}, admission_remaining=0)

    with tracing.span("train sums") as task:
        outbox.send([rollout_group()], lesson="sums")
    assert task is not None
    # Later and in another thread, after an outage for example.
    sender = threading.Thread(target=GroupSender(push), args=(spooled,))
    sender.start()
    sender.join()
    eventually(lambda: len(spans()) == 2, 20)

    trace = f"{task.get_span_context().trace_id:032x}"
    ((content, header),) = pushed
    assert {span.trace_id.hex() for span in spans()} == {trace}
    assert header.split("-")[1] == trace
    (group,) = msgspec.msgpack.decode(content, type=GroupPush).groups
    stored = msgspec.json.decode(read(group, MSGPACK).json["traceparent"])
    assert stored.split("-")[1] == trace


def test_without_a_collector_nothing_is_traced_or_sent() -> None:
    spooled: list[bytes] = []
    with tracing.span("train sums") as task:
        Outbox(spooled.append, worker="0/a").send([rollout_group()], lesson="sums")

    assert task is None
    assert b"traceparent\xa0" in spooled[0]
    assert b"00-" not in spooled[0]


def test_workers_inherit_the_collector_but_environments_do_not() -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SERVICE_NAME": "web"}

    assert child_environment.for_fleets(variables) == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"
    }
    assert child_environment.for_environments(variables) == {}


@pytest.mark.django_db(transaction=True)
def test_the_request_at_the_platform_is_part_of_the_trace(spans: Spans) -> None:
    from config.asgi import application

    run = make_run(name="sums")
    token = make_token("read", run=run)[1]
    with (
        on_a_port(traced(application)) as url,
        Connection(url, token) as connection,
        tracing.span("train sums"),
    ):
        connection.json(Call(method="GET", path="/api/v1/runs/sums"))
    eventually(lambda: len(spans()) == 2, 20)
    connections["default"].close()

    by_name = {span.name: span for span in spans()}
    task, request = by_name["train sums"], by_name["GET /api/v1/runs/{run}"]
    assert request.trace_id == task.trace_id
    assert request.parent_span_id == task.span_id
    assert attributes(request)["rolldeck.run"] == "sums"
