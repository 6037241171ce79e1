"""vLLM's generate route of our inference server and of a lesson's token server, over HTTP."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rollouts.fleet.engine.tokenizers import load_tokenizer
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.groups.token_server import RecordedRollout, TokenServer
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from runs.config.rules.language_config import SamplingConfig
from tests.contract.tiny_inference import CONTEXT, TinyInference, tiny_inference
from tests.unit.rollouts.fleet.engine.small_models import logprobs

ROUTE = "/inference/v1/generate"
PROMPT = [4, 5, 6]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyInference]:
    with tiny_inference(tmp_path_factory.mktemp("checkpoint")) as served:
        yield served


def post(url: str, *, key: str = "-", **content: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.post(url + ROUTE, json=content, headers=headers, timeout=60)


def check_choice(tiny: TinyInference, choice: dict[str, Any]) -> None:
    """Check the tokens, log probabilities and versions of an answer."""
    tokens = choice["token_ids"]
    expected = logprobs(tiny.model, PROMPT + tokens)
    content = choice["logprobs"]["content"]
    assert [one["token"] for one in content] == [f"token_id:{token}" for token in tokens]
    assert [one["logprob"] for one in content] == pytest.approx(
        [float(expected[len(PROMPT) - 1 + at, token]) for at, token in enumerate(tokens)], abs=1e-4
    )
    assert choice["policy_versions"] == [[1, 0, len(tokens)]]


def test_answers_have_tokens_logprobs_and_versions(tiny: TinyInference) -> None:
    params = {"max_tokens": 8, "n": 2, "seed": 3, "ignore_eos": True, "logprobs": 1}

    answer = post(tiny.url, model="tiny", token_ids=PROMPT, sampling_params=params).json()

    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["request_id"]
    for choice in answer["choices"]:
        assert (len(choice["token_ids"]), choice["finish_reason"]) == (8, "length")
        check_choice(tiny, choice)


def test_a_stop_token_ends_an_answer_with_it(tiny: TinyInference) -> None:
    every = list(range(2, 30))

    answer = post(tiny.url, token_ids=PROMPT, sampling_params={"stop_token_ids": every}).json()

    [choice] = answer["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"][-1] in {*every, 0}


@pytest.mark.parametrize(
    ("content", "status", "field"),
    [
        ({"token_ids": []}, 400, "token_ids"),
        ({"token_ids": [4, -1]}, 400, "token_ids[1]"),
        ({"token_ids": [1 << 20]}, 400, "token_ids"),
        ({"token_ids": [4] * CONTEXT}, 400, "token_ids"),
        ({"token_ids": PROMPT, "model": "other"}, 404, "model"),
        ({"token_ids": PROMPT, "stream": True}, 400, "stream"),
        ({"token_ids": PROMPT, "features": {"image": 1}}, 400, "features"),
        ({"token_ids": PROMPT, "sampling_params": {"n": 0}}, 400, "sampling_params.n"),
    ],
)
def test_an_invalid_request_names_the_field(
    tiny: TinyInference, content: dict[str, Any], status: int, field: str
) -> None:
    answer = post(tiny.url, **content)

    assert (answer.status_code, answer.json()["error"]["param"]) == (status, field), answer.text


@pytest.fixture
def lesson(tiny: TinyInference) -> Iterator[tuple[TokenServer, RecordedRollout]]:
    """Return the token server of a lesson, with one rollout in progress."""
    tokenizer = load_tokenizer(tiny.folder)
    server = TorchInferenceServer(tiny.model, rows=4, version=(1, 0), tokenizer=tokenizer)
    policy = PolicyContext(
        server=server,
        tokenizer=tokenizer,
        sampling=SamplingConfig(max_tokens=6),
        context_tokens=CONTEXT,
        stop=threading.Event(),
    )
    rollout = RecordedRollout(policy, 5)
    tokens = TokenServer(context_tokens=CONTEXT, api_key="key")
    tokens.add(rollout)
    yield tokens, rollout
    tokens.close()
    server.close()


def test_a_lesson_samples_with_its_own_parameters_and_records_the_answer(
    tiny: TinyInference, lesson: tuple[TokenServer, RecordedRollout]
) -> None:
    tokens, rollout = lesson
    base = tokens.url.removesuffix("/v1")
    params = {"max_tokens": 50, "temperature": 0.0, "extra_args": {"rollout": rollout.key}}

    answers = [
        post(base, key="key", token_ids=PROMPT, sampling_params=params).json() for _ in range(2)
    ]

    first, second = (answer["choices"][0] for answer in answers)
    assert first == second
    assert 1 <= len(first["token_ids"]) <= 6
    check_choice(tiny, first)
    [recorded] = rollout.answers.values()
    assert recorded.tokens == first["token_ids"]


@pytest.mark.parametrize(
    ("key", "params", "tokens", "status", "field"),
    [
        ("other", {}, PROMPT, 401, None),
        ("key", {"extra_args": {"rollout": "other"}}, PROMPT, 404, "sampling_params.extra_args"),
        ("key", {}, PROMPT, 404, "sampling_params.extra_args"),
        ("key", {"n": 2}, PROMPT, 400, "sampling_params.n"),
        ("key", {"extra_args": {"rollout": None}}, [4] * CONTEXT, 400, "token_ids"),
    ],
)
def test_a_lesson_refuses_other_requests(
    lesson: tuple[TokenServer, RecordedRollout],
    key: str,
    params: dict[str, Any],
    tokens: list[int],
    status: int,
    field: str | None,
) -> None:
    server, rollout = lesson
    if params.get("extra_args") == {"rollout": None}:
        params = {"extra_args": {"rollout": rollout.key}}

    answer = post(server.url.removesuffix("/v1"), key=key, token_ids=tokens, sampling_params=params)

    assert (answer.status_code, answer.json()["error"]["param"]) == (status, field), answer.text
    assert rollout.is_overlong == (len(tokens) == CONTEXT)
