"""OpenAI's Python client works with our inference server, over a real socket."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
import uvicorn

from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, ChatFormat
from rollouts.fleet.engine.transformer import Transformer
from tests.unit.rollouts.fleet.engine.small_models import logprobs, small_model
from tests.waiting import eventually, within

ALPHABET = "abcdefghijklmnopqrstuvwxyz 0123456789:\n"
ENDLESS: dict[str, Any] = {"model": "small", "extra_body": {"ignore_eos": True}}
TOKENIZER = AlphabetTokenizer(ALPHABET, ChatFormat(user="user: {}\n", answer="ai: "))


@dataclass(frozen=True, slots=True)
class Served:
    """A running server with its model and its engine's thread."""

    url: str
    model: Transformer
    thread: EngineThread

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="-", max_retries=0)

    def post(self, path: str, **content: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=content, timeout=30)

    def wait_until_idle(self) -> None:
        def is_idle() -> bool:
            progress = self.thread.progress
            return not progress.running and not progress.waiting

        assert within(30, is_idle, interval_seconds=0.01), f"busy: {self.thread.progress}"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    model = small_model(vocab_size=TOKENIZER.vocab_size, max_position_embeddings=256)
    engine = Engine(model, rows=8, version=(1, 3), tokenizer=TOKENIZER)
    thread = EngineThread(engine, context=256)
    api = OpenAiApi(thread, tokenizer=TOKENIZER, model="small", context=256, most_pending=500)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(api.app, log_level="warning", lifespan="off"))
    runner = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    runner.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def is_healthy() -> bool:
        try:
            return httpx.get(f"{url}/health", timeout=60).status_code == 200
        except httpx.HTTPError:
            return False

    eventually(is_healthy, 60)
    yield Served(url, model, thread)
    server.should_exit = True
    runner.join(10)
    thread.close()
    listener.close()


def test_models_are_listed(served: Served) -> None:
    with served.client() as client:
        assert [model.id for model in client.models.list()] == ["small"]


def test_a_completion_has_text_logprobs_and_usage(served: Served) -> None:
    with served.client() as client:
        answer = client.completions.create(
            **ENDLESS, prompt="hello", max_tokens=12, logprobs=1, seed=3, n=2
        )

    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 24)
    for choice in answer.choices:
        assert choice.finish_reason == "length"
        assert choice.logprobs is not None
        assert choice.logprobs.tokens is not None
        assert "".join(choice.logprobs.tokens) == choice.text
        tokens = TOKENIZER.encode("hello" + choice.text)
        expected = logprobs(served.model, tokens)
        actual = [expected[place, tokens[place + 1]].item() for place in range(4, 16)]
        assert choice.logprobs.token_logprobs == pytest.approx(actual, abs=1e-5)
    assert answer.choices[0].text != answer.choices[1].text


def test_a_seed_gives_the_same_text_again(served: Served) -> None:
    with served.client() as client:
        texts = {
            client.completions.create(**ENDLESS, prompt="abc", max_tokens=20, seed=seed)
            .choices[0]
            .text
            for seed in (1, 1, 2)
        }
    assert len(texts) == 2


def test_a_chat_goes_through_the_template(served: Served) -> None:
    with served.client() as client:
        answer = client.chat.completions.create(
            model="small",
            messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            max_completion_tokens=8,
            temperature=0,
            logprobs=True,
        )
        [completed] = client.completions.create(
            model="small", prompt="user: hi\nai: ", max_tokens=8, temperature=0
        ).choices

    [choice] = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", completed.text)
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert "".join(token.token for token in choice.logprobs.content) == completed.text


def test_a_stream_has_the_same_text_in_chunks(served: Served) -> None:
    request = ENDLESS | {"prompt": "abc", "max_tokens": 40, "seed": 5}
    with served.client() as client:
        whole = client.completions.create(**request).choices[0].text
        pieces = list(
            client.completions.create(
                **request, stream=True, stream_options={"include_usage": True}
            )
        )

    texts = [piece.choices[0].text for piece in pieces if piece.choices]
    assert "".join(texts) == whole
    assert len(texts) > 5
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.completion_tokens == 40
    assert pieces[-2].choices[0].finish_reason == "length"


def test_a_streamed_chat_begins_with_its_role(served: Served) -> None:
    with served.client() as client:
        pieces = list(
            client.chat.completions.create(
                **ENDLESS,
                messages=[{"role": "user", "content": "hi"}],
                max_tokens=10,
                stream=True,
            )
        )
    assert pieces[0].choices[0].delta.role == "assistant"
    assert pieces[-1].choices[0].finish_reason == "length"


def test_an_answer_ends_before_a_stop_text(served: Served) -> None:
    request = ENDLESS | {"prompt": "abc", "max_tokens": 60, "seed": 9}
    with served.client() as client:
        free = client.completions.create(**request).choices[0].text
        stop = free[20:22]
        stopped = client.completions.create(**request, stop=["#never#", stop]).choices[0]
        streamed = list(client.completions.create(**request, stop=stop, stream=True))

    assert stopped.text == free[: free.index(stop)]
    assert stopped.finish_reason == "stop"
    assert "".join(piece.choices[0].text for piece in streamed) == stopped.text
    served.wait_until_idle()


def test_token_ids_logprobs_and_versions_are_returned_on_request(served: Served) -> None:
    version = httpx.get(f"{served.url}/health", timeout=60).json()["policy_version"]
    response = served.post(
        "/v1/completions",
        prompt=[0, 1, 2],
        max_tokens=6,
        n=2,
        return_token_ids=True,
        ignore_eos=True,
    ).json()

    for choice in response["choices"]:
        assert choice["prompt_token_ids"] == [0, 1, 2]
        assert TOKENIZER.decode(choice["token_ids"]) == choice["text"]
        assert len(choice["token_logprobs"]) == 6
        assert choice["policy_versions"] == [[*version, 6]]


def test_several_prompts_are_answered_in_order(served: Served) -> None:
    response = served.post("/v1/completions", prompt=["a", "b"], max_tokens=3, n=2, seed=1).json()

    assert [choice["index"] for choice in response["choices"]] == [0, 1, 2, 3]
    alone = served.post("/v1/completions", prompt="a", max_tokens=3, n=2, seed=1).json()
    assert [choice["text"] for choice in alone["choices"]] == [
        choice["text"] for choice in response["choices"][:2]
    ]


REFUSED: dict[str, tuple[str, dict[str, Any], int, str | None]] = {
    "another model": ("completions", {"prompt": "a", "model": "big"}, 404, "model"),
    "no prompt": ("completions", {}, 400, None),
    "an empty prompt": ("completions", {"prompt": ""}, 400, "prompt"),
    "a long prompt": ("completions", {"prompt": "a" * 256}, 400, "prompt"),
    "a strange letter": ("completions", {"prompt": "Ä"}, 400, "prompt"),
    "a token too large": ("completions", {"prompt": [99]}, 400, "prompt"),
    "a cold sun": ("completions", {"prompt": "a", "temperature": -1}, 400, "temperature"),
    "none": ("completions", {"prompt": "a", "n": 0}, 400, "n"),
    "an empty stop": ("completions", {"prompt": "a", "stop": [""]}, 400, "stop[0]"),
    "echo": ("completions", {"prompt": "a", "echo": True}, 400, "echo"),
    "no messages": ("chat/completions", {"messages": []}, 400, "messages"),
    "tools": ("chat/completions", {"messages": [{}], "tools": [{}]}, 400, "tools"),
    "an unknown role": ("chat/completions", {"messages": [{"role": "x"}]}, 400, "messages"),
    "an image": (
        "chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "messages",
    ),
}


@pytest.mark.parametrize(("path", "body", "status", "param"), REFUSED.values(), ids=REFUSED.keys())
def test_unsupported_parameters_are_refused_with_their_name(
    served: Served, path: str, body: dict[str, Any], status: int, param: str | None
) -> None:
    answer = served.post(f"/v1/{path}", **body)

    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["param"], bool(error["message"])) == (param, True)


def test_a_body_that_is_not_json_is_refused(served: Served) -> None:
    answer = httpx.post(f"{served.url}/v1/completions", content=b"{", timeout=60)
    assert (answer.status_code, "not valid JSON" in answer.text) == (400, True)


def test_the_client_raises_the_error_of_the_server(served: Served) -> None:
    with (
        served.client() as client,
        pytest.raises(openai.NotFoundError, match="model 'big' does not exist"),
    ):
        client.completions.create(model="big", prompt="a")


def test_a_closed_connection_cancels_its_request(served: Served) -> None:
    with (
        httpx.Client(timeout=60) as client,
        client.stream(
            "POST",
            f"{served.url}/v1/completions",
            json={"prompt": "a", "max_tokens": 250, "n": 64, "stream": True, "ignore_eos": True},
        ) as answer,
    ):
        next(answer.iter_lines())
    before = served.thread.progress.tokens

    served.wait_until_idle()

    assert served.thread.progress.tokens - before < 64 * 250 / 2


def test_a_cancelled_request_frees_its_rows(served: Served) -> None:
    before = served.thread.progress.tokens
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{served.url}/v1/completions",
            json={"prompt": "a", "max_tokens": 250, "n": 400, "ignore_eos": True},
            timeout=0.5,
        )

    served.wait_until_idle()

    assert served.thread.progress.tokens - before < 400 * 250 / 2


def test_a_busy_server_answers_with_retry_after(served: Served) -> None:
    long = {"prompt": "a", "max_tokens": 250, "n": 500, "stream": True, "ignore_eos": True}
    url = f"{served.url}/v1/completions"
    with httpx.Client(timeout=60) as client, client.stream("POST", url, json=long) as first:
        lines = first.iter_lines()
        next(lines)
        refused = [
            served.post("/v1/completions", prompt="a"),
            served.post("/v1/completions", prompt="a", stream=True),
        ]
    served.wait_until_idle()

    assert [answer.status_code for answer in refused] == [503, 503]
    assert [answer.headers["Retry-After"] for answer in refused] == ["1", "1"]
    assert "500 answers pending" in refused[0].json()["error"]["message"]
    assert served.post("/v1/completions", prompt="a").status_code == 200


def test_a_body_larger_than_any_prompt_is_refused(served: Served) -> None:
    content = b'{"prompt": "' + b"a" * (33 << 20) + b'"}'
    answer = httpx.post(f"{served.url}/v1/completions", content=content, timeout=60)
    assert answer.status_code == 413


def test_weights_change_without_dropping_a_request(served: Served) -> None:
    def send_request(out: list[dict[str, Any]]) -> None:
        out.append(
            served.post(
                "/v1/completions",
                prompt="a",
                max_tokens=240,
                n=24,
                return_token_ids=True,
                ignore_eos=True,
            ).json()
        )

    answers: list[dict[str, Any]] = []
    asking = threading.Thread(target=send_request, args=(answers,))
    asking.start()
    eventually(lambda: served.thread.progress.running, 30, interval_seconds=0.001)

    served.thread.update_weights(served.model, (1, 4))

    assert served.thread.wait_for_version((1, 4), timeout_seconds=60)
    asking.join(60)
    spans = [choice["policy_versions"] for choice in answers[0]["choices"]]
    assert len(spans) == 24
    assert all(sum(tokens for _, _, tokens in span) == 240 for span in spans)
    assert all(span == sorted(span) for span in spans)
    assert {tuple(span_range[:2]) for span in spans for span_range in span} == {(1, 3), (1, 4)}
    assert httpx.get(f"{served.url}/health", timeout=60).json()["policy_version"] == [1, 4]
