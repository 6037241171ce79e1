"""A run names an inference server, and the machine's settings hold its address."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from config.env import InvalidSetting
from config.settings.connections import inference_servers  # noqa: TID251 as at startup
from rollouts.fleet.engine.engine import PromptTooLong, TokenUnknown
from rollouts.fleet.inference.contract import Unreachable
from rollouts.fleet.inference.dialects import prompt_error
from rollouts.fleet.inference.http_client import HttpInferenceServer
from rollouts.fleet.inference.servers import inference_server_for
from rollouts.fleet.inference.transfers import OfferedFile
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from runs.config.rules.language_config import LanguageConfig, LessonConfig, SamplingConfig
from runs.config.rules.servers import INFERENCE_SERVERS, parse_inference_servers

LESSONS = {"sort": LessonConfig(spec="task:sort")}
SERVERS = {
    "ours": {"kind": "rolldeck", "url": "http://127.0.0.1:1"},
    "bare": {"kind": "vllm", "url": "http://127.0.0.1:1"},
}
PAIR = {"kind": "rolldeck", "url": "http://router:1"}
MACHINE = {INFERENCE_SERVERS: json.dumps(SERVERS)}
ROOM = "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
LONG = "This model's maximum context length is 512 tokens, your request has 600 input tokens."
V1_LONG = "The decoder prompt (length 600) is longer than the maximum model length of 512."
SGLANG_LONG = "The input (600 tokens) is longer than the model's context length (512 tokens)."


def config_with_server(name: str) -> LanguageConfig:
    return LanguageConfig(lessons=LESSONS, inference=name)


def test_a_run_without_a_server_generates_in_its_workers() -> None:
    assert inference_server_for(config_with_server(""), MACHINE) is None


def test_a_run_gets_the_server_that_it_names() -> None:
    server = inference_server_for(config_with_server("ours"), MACHINE)

    assert isinstance(server, HttpInferenceServer)
    server.close()


@pytest.mark.parametrize(
    ("name", "machine", "why"),
    [
        ("other", MACHINE, "known: bare, ours"),
        ("ours", {}, "known: none"),
        (
            "ours",
            {INFERENCE_SERVERS: '{"ours": {"kind": "oracle"}}'},
            "Invalid enum value 'oracle'",
        ),
        ("bare", MACHINE, "requires weights_directory"),
        (
            "pair",
            {INFERENCE_SERVERS: json.dumps({"pair": PAIR | {"control": ["http://a:1", "gpu:2"]}})},
            r"regex.*\$\[\.\.\.\]\.control\[1\]",
        ),
        (
            "pair",
            {
                INFERENCE_SERVERS: json.dumps(
                    {"pair": PAIR | {"control": ["http://a:1", "http://a:1/"]}}
                )
            },
            r"control\[1\]: http://a:1/ is listed twice",
        ),
        (
            "pair",
            {
                INFERENCE_SERVERS: json.dumps(
                    {"pair": PAIR | {"sleep": True, "weights_directory": "/w"}}
                )
            },
            "sleep: requires weights_directory, and the kind vllm or sglang",
        ),
        (
            "pair",
            {INFERENCE_SERVERS: json.dumps({"pair": PAIR | {"weight_transfer": True}})},
            "weight_transfer: requires the kind vllm, without weights_directory",
        ),
        (
            "bare",
            {INFERENCE_SERVERS: json.dumps({"bare": SERVERS["bare"] | {"sleep": True}})},
            "sleep: requires weights_directory",
        ),
    ],
)
def test_an_unavailable_inference_server_is_refused_with_its_field(
    name: str, machine: dict[str, str], why: str
) -> None:
    with pytest.raises(PolicyDoesNotFit, match=why) as refusal:
        inference_server_for(config_with_server(name), machine)
    assert refusal.value.field == "language.inference"


@pytest.mark.parametrize(
    ("sampling", "field"),
    [(SamplingConfig(top_p=0.9), "top_p"), (SamplingConfig(top_k=5), "top_k")],
)
def test_vllm_is_refused_for_lessons_whose_logprobs_it_would_change(
    sampling: SamplingConfig, field: str
) -> None:
    lessons = LESSONS | {"short": LessonConfig(spec="task:sort", sampling=sampling)}
    config = LanguageConfig(lessons=lessons, inference="bare")

    with pytest.raises(PolicyDoesNotFit, match="log probabilities") as refusal:
        inference_server_for(config, MACHINE)
    assert refusal.value.field == f"language.lessons.short.sampling.{field}"

    inference_server_for(config, MACHINE, is_fixed=True).close()
    inference_server_for(replace(config, inference="ours"), MACHINE).close()


def test_a_server_without_replicas_is_its_own_replica() -> None:
    text = json.dumps({"pair": PAIR | {"control": ["http://a:1", "http://b:1"]}, "one": PAIR})
    servers = parse_inference_servers(text)

    assert servers["pair"].replicas == ["http://a:1", "http://b:1"]
    assert servers["one"].replicas == ["http://router:1"]


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://gpu:8001", 8001), ("http://gpu", 80), ("https://gpu/big", 443)],
)
def test_the_setting_yields_kind_and_port_of_a_server(url: str, port: int) -> None:
    offered = inference_servers(json.dumps({"big": {"kind": "vllm", "url": url}}))

    assert offered == {"big": ("vllm", port)}


def test_an_invalid_setting_of_servers_stops_the_start() -> None:
    assert inference_servers("") == {}
    with pytest.raises(InvalidSetting, match=r"ROLLDECK_INFERENCE_SERVERS.*url"):
        inference_servers('{"a": {"kind": "vllm", "url": "gpu:8000"}}')
    with pytest.raises(InvalidSetting, match=r"ROLLDECK_INFERENCE_SERVERS: a\.url: Port"):
        inference_servers('{"a": {"kind": "vllm", "url": "http://gpu:99999"}}')


def openai(message: str, *, param: str | None = None, code: object = 400) -> dict[str, Any]:
    error = {"message": message, "type": "BadRequestError", "param": param, "code": code}
    return {"error": error}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (openai("Too long.", code="context_length_exceeded"), PromptTooLong),
        (openai("Unknown.", param="prompt", code="token_unknown"), TokenUnknown),
        (openai(LONG, param="input_tokens"), PromptTooLong),
        (openai(ROOM, param="max_tokens"), PromptTooLong),
        (openai(V1_LONG), PromptTooLong),
        (openai("Token id 999 is out of vocabulary"), TokenUnknown),
        ({"object": "error", **openai(SGLANG_LONG)["error"]}, PromptTooLong),
        ({"error": {"message": SGLANG_LONG}}, PromptTooLong),
        # A named code or parameter decides, whatever words the message contains.
        (openai("n must be 1 in this context", param="n"), None),
        (openai("no such vocabulary file", code="invalid_value"), None),
        (openai("top_p must be at most 1"), None),
    ],
)
def test_a_refusal_is_recognized(body: dict[str, Any], kind: type[Exception] | None) -> None:
    error = prompt_error(json.dumps(body))

    assert (None if error is None else type(error)) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("the prompt exceeds the context", PromptTooLong),
        ("[1]", type(None)),
        ('{"error": "the prompt exceeds the context"}', PromptTooLong),
        ("", type(None)),
    ],
)
def test_a_body_of_another_form_is_recognized_by_words(text: str, kind: type) -> None:
    assert type(prompt_error(text)) is kind


@pytest.fixture
def reader() -> Iterator[str]:
    """Address of a host that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_the_file_is_sent_at_its_address_only(reader: str) -> None:
    content = b"weights" * 100_000
    with OfferedFile(content, reader=reader) as offered:
        assert not offered.is_requested(0.01)
        other = httpx.get(offered.url[:-1])
        assert (other.status_code, offered.is_requested(0.01)) == (404, False)

        answer = httpx.get(offered.url)

        assert answer.content == content
        assert offered.is_requested(5)
        offered.wait_until_sent()
    with pytest.raises(httpx.ConnectError):
        httpx.get(offered.url)


def test_a_reader_that_cannot_be_reached_is_named() -> None:
    closed = "http://127.0.0.1:9"

    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:9: .*refused"):
        OfferedFile(b"", reader=closed)
