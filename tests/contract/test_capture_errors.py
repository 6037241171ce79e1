"""Faults of the inference server and of the platform, as agents of each API receive them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from buffer.capture.models import CaptureSession
from buffer.capture.services import assembled
from runs.lifecycle.models import Run
from tests.contract.capture_setup import KEY, Stand, on_a_port, stand_with
from tests.stand_ins.scripted_chat import ScriptedChat, text_answer, tool_answer
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

HELLO = [{"role": "user", "content": "hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"model": "policy", "messages": HELLO},
    "responses": {"model": "policy", "input": "hello"},
    "messages": {"model": "policy", "messages": HELLO, "max_tokens": 9},
}
APIS = pytest.mark.parametrize("api", list(BODIES))


@pytest.fixture
def scripted() -> ScriptedChat:
    return ScriptedChat(text_answer("fine"))


@pytest.fixture
def stand(scripted: ScriptedChat) -> Iterator[Stand]:
    with on_a_port(scripted.app) as url, stand_with(f"{url}/v1", upstream_seconds=0.5) as made:
        yield made


def post(stand: Stand, api: str, **fields: Any) -> httpx.Response:
    url = f"{stand.proxy}/capture/one/v1/{api}"
    headers = {"authorization": f"Bearer {KEY}"}
    return httpx.post(url, json=BODIES[api] | fields, headers=headers, timeout=60)


def message_of(response: httpx.Response, api: str) -> str:
    """Return the message of an error, after a check of its format."""
    body = response.json()
    assert set(body) == ({"type", "error"} if api == "messages" else {"error"})
    kinds = {"api_error", "timeout_error"} if api == "messages" else {"server_error"}
    assert body["error"]["type"] in kinds
    return str(body["error"]["message"])


def fewer_logprobs(response: dict[str, Any]) -> dict[str, Any]:
    for choice in response["choices"]:
        choice["logprobs"] = {"content": choice["logprobs"]["content"][1:]}
    return response


def without_tokens(response: dict[str, Any]) -> dict[str, Any]:
    for choice in response["choices"]:
        choice["token_ids"] = None
    return response


def of_another_type(response: dict[str, Any]) -> dict[str, Any]:
    return response | {"choices": {"text": "fine"}}


def of_another_model(response: dict[str, Any]) -> dict[str, Any]:
    return response | {"model": "other"}


FAULTS = [
    (fewer_logprobs, "4 logprobs for 5 tokens"),
    (without_tokens, "no token ids of the answer"),
    (of_another_type, "Expected `array`, got `object` - at `$.choices`"),
    (of_another_model, "answered with model 'other', not with 'policy'"),
]


@APIS
@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_an_invalid_answer_is_an_error_and_not_stored(
    scripted: ScriptedChat, stand: Stand, api: str, fault: Callable[[Any], Any], message: str
) -> None:
    scripted.change = fault

    response = post(stand, api)

    assert response.status_code == 502
    assert message in message_of(response, api)
    assert not CaptureSession.objects.exists()


@APIS
def test_a_stream_that_is_invalid_from_the_beginning_has_an_error_status(
    scripted: ScriptedChat, stand: Stand, api: str
) -> None:
    scripted.change = of_another_type

    response = post(stand, api, stream=True)

    assert response.status_code == 502
    assert "Expected `array`" in message_of(response, api)
    assert not CaptureSession.objects.exists()


@APIS
def test_half_a_stream_ends_with_an_error_and_leaves_a_gap(
    scripted: ScriptedChat, stand: Stand, api: str
) -> None:
    scripted.chunks_sent = 3

    response = post(stand, api, stream=True)

    assert "ended the stream before [DONE]" in error_at_the_end(response, api)
    eventually(lambda: CaptureSession.objects.filter(name="one").exists(), seconds=30)
    made = assembled(CaptureSession.objects.get())
    assert (made.sequences, len(made.gaps)) == ([], 1)


def error_at_the_end(response: httpx.Response, api: str) -> str:
    """Return the message of the error that ends a stream, in the format of the API."""
    parts = [part for part in response.text.strip().split("\n\n") if part != "data: [DONE]"]
    lines = parts[-1].split("\n")
    data = json.loads(lines[-1].removeprefix("data: "))
    if api == "responses":
        assert lines[0] == "event: response.failed"
        assert data["response"]["status"] == "failed"
        data = data["response"]
    if api == "messages":
        assert lines[0] == "event: error"
    return str(data["error"]["message"])


@APIS
@pytest.mark.parametrize("stream", [False, True])
def test_a_slow_server_is_an_error(
    scripted: ScriptedChat, stand: Stand, api: str, stream: bool
) -> None:
    scripted.wait_seconds = 1.0

    response = post(stand, api, stream=stream)

    assert response.status_code == 504
    assert message_of(response, api) == "the inference server sent nothing for 0.5 s"
    assert not CaptureSession.objects.exists()


@pytest.mark.parametrize(
    ("api", "ends"),
    [
        ("chat/completions", ['"finish_reason": "tool_calls"']),
        ("responses", ["response.function_call_arguments.done", '"sub"', "response.completed"]),
        ("messages", ['"type":"content_block_stop","index":1', '"sub"', "message_stop"]),
    ],
)
def test_an_answer_that_is_not_stored_does_not_reach_the_agent(
    scripted: ScriptedChat, stand: Stand, api: str, ends: list[str]
) -> None:
    scripted.answers = [tool_answer(("add", "{}"), ("sub", "{}"), text="ok")]
    stored = post(stand, api, stream=True).text
    Run.objects.filter(pk=stand.run.pk).update(status="completed")

    whole, streamed = post(stand, api), post(stand, api, stream=True)

    assert whole.status_code == 409
    assert "run_not_accepting" in whole.json()["error"]["message"]
    assert "run_not_accepting" in error_at_the_end(streamed, api)
    assert [end in stored for end in ends] == [True] * len(ends)
    assert [end in streamed.text for end in ends] == [False] * len(ends)
    assert CaptureSession.objects.get().calls == 1


def answering(response: Response) -> Starlette:
    async def chat(request: Request) -> Response:
        return response

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])


@APIS
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_of_the_server_keeps_its_status_and_text(api: str, stream: bool) -> None:
    error = {"message": "too long", "param": "messages", "code": "context_length_exceeded"}
    refusing = answering(JSONResponse({"error": error}, 400))
    busy = answering(PlainTextResponse("busy", 503, headers={"Retry-After": "7"}))

    for app in (refusing, busy):
        with on_a_port(app) as url, stand_with(f"{url}/v1") as stand:
            response = post(stand, api, stream=stream)
            Run.objects.all().delete()
        if app is refusing:
            assert (response.status_code, response.json()["error"]["message"]) == (400, "too long")
        else:
            assert (response.status_code, response.headers["retry-after"]) == (503, "7")
            assert "busy" in response.json()["error"]["message"]


@APIS
def test_an_unreachable_server_and_a_page_are_errors(api: str) -> None:
    page = answering(PlainTextResponse("<html>"))

    with on_a_port(page) as url, stand_with(f"{url}/v1") as stand:
        wrong = post(stand, api)
        Run.objects.all().delete()
    with stand_with("http://127.0.0.1:9/v1") as stand:
        lost = post(stand, api)

    assert (wrong.status_code, lost.status_code) == (502, 503)
    assert "'<html>'" in wrong.json()["error"]["message"]
    assert "unreachable" in lost.json()["error"]["message"]
    assert not CaptureSession.objects.exists()
