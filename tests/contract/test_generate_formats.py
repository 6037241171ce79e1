"""The formats of `POST /generate` for stock Atropos environments: SGLang's, vLLM's and TRL's.

The requests are those of atroposlib 0.4.0 with the `server_type` of that name, and the responses
are read as its clients read them.
"""

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rollouts.fleet.engine import openai_api
from rollouts.fleet.engine.tokenizers import load_tokenizer
from tests.contract.tiny_inference import CONTEXT, TinyInference, tiny_inference
from tests.unit.rollouts.fleet.engine.small_models import logprobs

HTTP = httpx.Client(timeout=60)
PROMPT = [4, 5, 6]
TEXT = "12="
NEVER = "\N{SNOWMAN}"
"""Text of no token of the model."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyInference]:
    with tiny_inference(tmp_path_factory.mktemp("checkpoint")) as served, HTTP:
        yield served


def post(tiny: TinyInference, path: str, **content: Any) -> httpx.Response:
    return HTTP.post(tiny.url + path, json=content)


def of_vllm(**content: Any) -> dict[str, Any]:
    """Return the body of `VLLMServer._tokens_and_logprobs_completion_wrapper`."""
    return {"prompt": {"prompt_token_ids": PROMPT}, "logprobs": 0, **content}


def of_trl(**content: Any) -> dict[str, Any]:
    """Return the body of `TrlVllmServer._completion_wrapper`."""
    return {
        "prompts": [TEXT],
        "n": 1,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "max_tokens": 1024,
        **content,
    }


def check_logprobs(
    tiny: TinyInference, prompt: list[int], tokens: list[int], found: list[float]
) -> None:
    expected = logprobs(tiny.model, prompt + tokens)
    drawn = [float(expected[len(prompt) - 1 + at, token]) for at, token in enumerate(tokens)]
    assert found == pytest.approx(drawn, abs=1e-4)


@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_in_the_format_of_vllm_is_read_by_the_stock_client(
    tiny: TinyInference, count: int
) -> None:
    body = of_vllm(n=count, max_tokens=8, temperature=1.0, top_p=1.0, stop=[NEVER], ignore_eos=True)
    answer = post(tiny, "/generate", **body).json()

    assert answer["finish_reasons"] == ["length"] * count
    for place, row in enumerate(answer["logprobs"]):
        found = [next(iter(item[0].values())) for item in row]
        tokens = [int(next(iter(item[0]))) for item in row]
        assert len(tokens) == 8
        check_logprobs(tiny, PROMPT, tokens, found)
        assert answer["token_ids"][place] == tokens
        assert answer["policy_versions"][place] == [[1, 0, 8]]
    assert len(answer["logprobs"]) == len(answer["text"]) == count
    assert answer["prompt_token_ids"] == PROMPT


def test_an_answer_of_vllm_without_logprobs_has_its_text_only(tiny: TinyInference) -> None:
    answer = post(tiny, "/generate", prompt=TEXT, seed=3).json()

    assert answer.keys() == {"text", "prompt", "finish_reasons", "policy_versions"}
    assert answer["prompt"] == TEXT
    assert answer["finish_reasons"][0] in {"stop", "length"}


@pytest.mark.parametrize("likeliest", [0, 1, 3, 20])
def test_a_teacher_has_the_log_probabilities_of_a_prompt(
    tiny: TinyInference, likeliest: int
) -> None:
    """The request is that of `VLLMServer._get_logprobs_wrapper`."""
    tokens = [7, 8, 9] * 30
    body = {"prompt": {"prompt_token_ids": tokens}, "prompt_logprobs": likeliest, "n": 1}
    first, *places = post(
        tiny, "/generate", **body, temperature=0.0, top_p=1.0, max_tokens=1
    ).json()["prompt_logprobs"]

    expected = logprobs(tiny.model, tokens)
    assert first is None
    assert len(places) == len(tokens) - 1
    for at, place in enumerate(places):
        shown = {int(token): logprob for token, logprob in place.items()}
        top = expected[at].topk(likeliest).indices.tolist()
        assert next(iter(shown)) == tokens[at + 1]
        assert shown.keys() == {tokens[at + 1], *top}
        for token, logprob in shown.items():
            assert logprob == pytest.approx(expected[at, token].item(), abs=1e-4)


@pytest.mark.parametrize("path", ["/generate/", "/generate"])
def test_an_answer_in_the_format_of_trl_is_read_by_the_stock_client(
    tiny: TinyInference, path: str
) -> None:
    tokenizer = load_tokenizer(tiny.folder)
    body = of_trl(n=2, max_tokens=6, prompts=[TEXT, "7="], seed=1)
    answer = post(tiny, path, **body).json()

    assert answer["prompt_ids"] == [tokenizer.encode(TEXT), tokenizer.encode("7=")]
    assert len(answer["completion_ids"]) == 4
    for place, tokens in enumerate(answer["completion_ids"]):
        assert tokenizer.end in tokens or len(tokens) == 6
        prompt = answer["prompt_ids"][place // 2]
        check_logprobs(tiny, prompt, tokens, answer["logprobs"][place])


CHAT = {"messages": [{"role": "user", "content": "1"}], "max_tokens": 1}
COMPLETION = {"prompt": TEXT, "max_tokens": 1}
SGLANG = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 1}}
TOKENS = {"token_ids": PROMPT, "sampling_params": {"max_tokens": 1}}
ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "completions": ("/v1/completions", COMPLETION),
    "vllm": ("/generate", of_vllm(max_tokens=1)),
    "trl": ("/generate/", of_trl(max_tokens=1)),
    "sglang": ("/generate", SGLANG),
    "tokens": ("/inference/v1/generate", TOKENS),
}
UNSUPPORTED: dict[str, Any] = {
    "frequency_penalty": 0.5,
    "presence_penalty": -1,
    "repetition_penalty": 1.1,
    "min_p": 0.1,
    "typical_p": 0.9,
    "min_tokens": 4,
    "min_new_tokens": 4,
    "best_of": 2,
    "logit_bias": {"5": 10},
    "response_format": {"type": "json_object"},
    "guided_regex": "[0-9]+",
    "json_schema": "{}",
    "bad_words": ["x"],
    "stop_regex": "x",
    "top_logprobs": 3,
    "logprob_start_len": 0,
    "top_logprobs_num": 1,
    "generation_kwargs": {"min_p": 0.1},
    "chat_template_kwargs": {"enable_thinking": False},
    "n_typo": 2,
}
HARMLESS: dict[str, Any] = {
    "user": "me",
    "metadata": {"a": "b"},
    "store": True,
    "cache_salt": "x",
    "priority": 3,
    "rid": "x",
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_p": 0.0,
    "typical_p": 1,
    "min_tokens": 0,
    "best_of": 1,
    "logit_bias": {},
    "response_format": {"type": "text"},
    "guided_regex": None,
    "bad_words": [],
    "suffix": "",
    "echo": False,
    "tools": [],
    "tool_choice": "none",
    "top_logprobs": 0,
    "logprob_start_len": -1,
    "top_logprobs_num": 0,
    "return_text_in_logprobs": False,
    "skip_special_tokens": True,
    "temperature": None,
    "top_p": 1.0,
    "top_k": -1,
    "n": None,
    "stop": None,
}
# Fields that only the body itself may contain, or only its parameters for sampling.
NESTED = {"sglang", "tokens"}


def with_field(route: str, name: str, value: Any) -> tuple[str, dict[str, Any], str]:
    """Return the path and the body of a request with one more field, and the path of the field."""
    path, body = ROUTES[route]
    if route not in NESTED:
        return path, body | {name: value}, name
    params = body["sampling_params"] | {name: value}
    return path, body | {"sampling_params": params}, f"sampling_params.{name}"


@pytest.mark.parametrize("route", ROUTES)
def test_fields_that_would_change_the_answer_are_refused_by_name(
    tiny: TinyInference, route: str
) -> None:
    for name, value in UNSUPPORTED.items():
        path, body, place = with_field(route, name, value)
        answer = post(tiny, path, **body)

        assert answer.status_code == 400, f"{name}: {answer.text}"
        error = answer.json()["error"]
        assert (error["param"], error["message"]) == (place, f"{place} is not supported")


@pytest.mark.parametrize("route", ROUTES)
def test_fields_without_effect_are_accepted(tiny: TinyInference, route: str) -> None:
    for name, value in HARMLESS.items():
        path, body, _ = with_field(route, name, value)
        answer = post(tiny, path, **body)

        assert answer.status_code == 200, f"{name}: {answer.text}"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/generate", {}, "input_ids"),
        ("/generate", {**SGLANG, "stream": True}, "stream"),
        ("/generate", {**SGLANG, "image_data": "x"}, "image_data"),
        ("/generate", {**SGLANG, "logprob_start_len": 0}, "logprob_start_len"),
        ("/generate", of_vllm(stream=True), "stream"),
        ("/generate", of_vllm(logprobs=5), "logprobs"),
        ("/generate", of_vllm(max_tokens=0), "max_tokens"),
        ("/generate", of_vllm(prompt={"prompt_token_ids": [-1]}), "prompt.prompt_token_ids[0]"),
        ("/generate", of_vllm(prompt={"prompt_token_ids": [1 << 20]}), "prompt"),
        ("/generate", of_vllm(prompt={"prompt_token_ids": [4] * CONTEXT}), "prompt"),
        ("/generate", of_vllm(prompt={"multi_modal_data": {}}), "prompt"),
        ("/generate/", of_trl(prompts=[]), "prompts"),
        ("/generate/", of_trl(prompts=["1", "1" * CONTEXT]), "prompts"),
        ("/generate/", of_trl(prompts=[[1 << 20]]), "prompts"),
        ("/generate/", of_trl(images=["x"]), "images"),
        ("/inference/v1/generate", {**TOKENS, "features": {"image": 1}}, "features"),
        ("/v1/completions", {**COMPLETION, "logprobs": 5}, "logprobs"),
        ("/v1/completions", {**COMPLETION, "prompt_logprobs": 0}, "prompt_logprobs"),
        ("/generate", of_vllm(prompt_logprobs=21), "prompt_logprobs"),
        ("/generate/", of_trl(prompt_logprobs=1), "prompt_logprobs"),
    ],
)
def test_an_invalid_request_names_the_field(
    tiny: TinyInference, path: str, body: dict[str, Any], field: str
) -> None:
    answer = post(tiny, path, **body)

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == field


def test_logprobs_have_numbers_of_tokens_on_request(tiny: TinyInference) -> None:
    body = {"max_tokens": 3, "logprobs": 1, "return_token_ids": True}
    body["return_tokens_as_token_ids"] = True
    [choice] = post(tiny, "/v1/completions", prompt=TEXT, **body).json()["choices"]

    assert choice["logprobs"]["tokens"] == [f"token_id:{one}" for one in choice["token_ids"]]


def test_refused_requests_are_logged_once_per_kind_and_minute(
    tiny: TinyInference, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_api, "_logged", {})
    with caplog.at_level(logging.WARNING, logger=openai_api.__name__):
        for min_p in (0.1, 0.2):
            post(tiny, "/generate", **of_vllm(min_p=min_p))
        post(tiny, "/generate", **of_vllm(stream=True))
        monkeypatch.setattr(openai_api, "LOG_SECONDS", 0.0)
        post(tiny, "/generate", **of_vllm(min_p=0.3))

    # Threads of other tests log too.
    own = [record for record in caplog.records if record.name == openai_api.__name__]
    assert [record.getMessage() for record in own] == [
        "refused /generate with 400 (min_p): min_p is not supported",
        "refused /generate with 400 (stream): stream is not supported",
        "refused /generate with 400 (min_p): min_p is not supported",
    ]
