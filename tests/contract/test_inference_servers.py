"""Every inference server fulfils the contract of the interface: ours, in and out of process, too.

vLLM and SGLang need a GPU and are replaced by stand-ins with their HTTP API.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.engine.engine import Answer, Engine, Prompt, PromptTooLong, TokenUnknown
from rollouts.fleet.engine.following import BOOTSTRAP, WeightsSwap
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.sampling import SamplingParams
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import CharTokenizer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.engine.weights_api import WeightsApi
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from rollouts.fleet.inference.http_client import HttpInferenceServer
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from runs.config.rules.inference_servers import InferenceServerSettings
from tests.stand_ins.inference_servers import SglangStandIn, StandIn, VllmStandIn, listening
from tests.unit.rollouts.fleet.engine.small_models import logprobs, small_model

TOKENIZER = CharTokenizer("abcdefghijklmnopqrstuvwxyz 0123456789:\n")
CONTEXT = 256
FIRST, SECOND = (1, 4), (1, 5)
NEVER = threading.Event()
MakeServer = Callable[[], InferenceServer]


def model(seed: int) -> Transformer:
    shapes = {"vocab_size": TOKENIZER.vocab_size, "max_position_embeddings": CONTEXT}
    return small_model(seed=seed, **shapes)


@dataclass(slots=True)
class Place:
    """A tested server: its connection factory and the requests that it received."""

    connect: MakeServer
    calls: list[str] = field(default_factory=list)


def in_process(tmp_path: Path, parts: ExitStack) -> Place:
    def connect() -> InferenceServer:
        server = TorchInferenceServer(model(0), rows=8, tokenizer=TOKENIZER)
        parts.callback(server.close)
        return server

    return Place(connect)


def ours_over_http(tmp_path: Path, parts: ExitStack) -> Place:
    engine = Engine(model(0), rows=8, version=BOOTSTRAP, tokenizer=TOKENIZER)
    thread = EngineThread(engine, context=CONTEXT)
    parts.callback(thread.close)
    api = OpenAiApi(thread, tokenizer=TOKENIZER, model="small", context=CONTEXT)
    api.app.routes.extend(WeightsApi(thread, WeightsSwap(thread, model(0).config)).routes)
    url = parts.enter_context(listening(api.app))
    return Place(connected(parts, InferenceServerSettings(kind="rolldeck", url=url)))


def beside(kind: str, stand_in: type[StandIn]) -> Callable[[Path, ExitStack], Place]:
    def start(tmp_path: Path, parts: ExitStack) -> Place:
        server = stand_in(tmp_path, model(0), TOKENIZER)
        parts.callback(server.thread.close)
        url = parts.enter_context(listening(server.app()))
        settings = InferenceServerSettings(
            kind=kind,  # type: ignore[arg-type]
            url=url,
            model="small",
            weights_directory=str(tmp_path),
        )
        return Place(connected(parts, settings), server.calls)

    return start


def connected(parts: ExitStack, settings: InferenceServerSettings) -> MakeServer:
    def connect() -> InferenceServer:
        server = HttpInferenceServer(settings)
        parts.callback(server.close)
        return server

    return connect


SHARED = {
    "rolldeck serve": ours_over_http,
    "vLLM": beside("vllm", VllmStandIn),
    "SGLang": beside("sglang", SglangStandIn),
}
PLACES = {"in process": in_process} | SHARED


@pytest.fixture(params=PLACES.values(), ids=PLACES.keys())
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as parts:
        yield request.param(tmp_path, parts)


@pytest.fixture
def server(place: Place) -> InferenceServer:
    return place.connect()


def prompt(
    *tokens: int, answers: int = 2, max_tokens: int = 12, stop: int = -1, **sampled: Any
) -> Prompt:
    ends = frozenset({stop} - {-1})
    sampling = SamplingParams(max_tokens=max_tokens, stop_tokens=ends, seed=7, **sampled)
    return Prompt(tokens=tokens, sampling=sampling, answers=answers)


def generate_answers(server: InferenceServer, *prompts: Prompt) -> list[list[Answer]]:
    return server.generate(prompts, stop=NEVER, timeout_seconds=60)


def agrees(weights: Transformer, prompt: Prompt, answer: Answer) -> bool:
    """Return whether these weights give the answer's tokens the reported log probabilities."""
    expected = logprobs(weights, [*prompt.tokens, *answer.tokens])
    first = len(prompt.tokens) - 1
    actual = [expected[first + n, token].item() for n, token in enumerate(answer.tokens)]
    return answer.logprobs == pytest.approx(actual, abs=1e-4)


def test_answers_are_returned_by_prompt_with_their_logprobs(server: InferenceServer) -> None:
    prompts = [prompt(1, 2, 3, answers=3), prompt(4), prompt(5, 6, answers=1)]

    completions = generate_answers(server, *prompts)

    assert [[answer.index for answer in answers] for answers in completions] == [
        [0, 1, 2],
        [0, 1],
        [0],
    ]
    for request, answers in zip(prompts, completions, strict=True):
        for answer in answers:
            assert (len(answer.tokens), answer.finish) == (12, "length")
            assert agrees(model(0), request, answer)
    assert completions[0][0].tokens != completions[0][1].tokens


def test_an_answer_ends_with_its_stop_token_and_with_no_other(server: InferenceServer) -> None:
    [free] = generate_answers(server, prompt(1, answers=1, max_tokens=40))
    stop = free[0].tokens[5]

    answers = generate_answers(server, prompt(1, answers=8, max_tokens=200, stop=stop))[0]

    stopped = [answer for answer in answers if answer.finish == "stop"]
    assert stopped
    assert all(answer.tokens.index(stop) == len(answer.tokens) - 1 for answer in stopped)


def test_an_answer_ends_with_the_token_that_completes_its_stop_text(
    server: InferenceServer,
) -> None:
    [free] = generate_answers(server, prompt(1, answers=1, max_tokens=40))
    # SGLang gets no seed: with only 2 stop texts, 25 of 210 requests had no stopped answer.
    texts = tuple(TOKENIZER.decode(free[0].tokens[at : at + 2]) for at in range(16))
    sampling = SamplingParams(max_tokens=200, stop=texts, seed=7)
    asked = Prompt(tokens=(1,), sampling=sampling, answers=8)

    found = generate_answers(server, asked)[0]

    stopped = [answer for answer in found if answer.finish == "stop"]
    assert stopped
    for answer in stopped:
        text = TOKENIZER.decode(answer.tokens)
        assert text.endswith(texts)
        assert not any(one in text[:-1] for one in texts)
        assert len(answer.tokens) == len(answer.logprobs) == len(answer.versions)
        assert agrees(model(0), asked, answer)


def test_greedy_answers_to_a_prompt_are_all_the_same(server: InferenceServer) -> None:
    [found] = generate_answers(server, prompt(1, 2, answers=3, temperature=0.0))

    assert [answer.index for answer in found] == [0, 1, 2]
    assert found[0].finish == "length"
    assert found[1].tokens == found[2].tokens == found[0].tokens


def test_weights_change_and_every_token_is_labelled(server: InferenceServer) -> None:
    request = prompt(1, 2)
    server.update_weights(dict(named_tensors(model(1))), FIRST)
    [first] = generate_answers(server, request)
    server.update_weights({k: v.numpy() for k, v in named_tensors(model(2))}, SECOND)
    [second] = generate_answers(server, request)

    assert server.version == SECOND
    assert {version for answer in first for version in answer.versions} == {FIRST}
    assert {version for answer in second for version in answer.versions} == {SECOND}
    assert all(len(answer.versions) == len(answer.tokens) for answer in [*first, *second])
    assert all(agrees(model(1), request, answer) for answer in first)
    assert all(agrees(model(2), request, answer) for answer in second)


def test_tokens_drawn_before_a_weights_change_are_never_labelled_newer(
    server: InferenceServer,
) -> None:
    server.update_weights(dict(named_tensors(model(1))), FIRST)
    request = prompt(1, answers=24, max_tokens=200)
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.extend(generate_answers(server, request)[0]))
    asking.start()
    time.sleep(0.05)

    server.update_weights(dict(named_tensors(model(2))), SECOND)

    asking.join(120)
    assert len(answers) == 24
    for answer in answers:
        assert (len(answer.tokens), len(answer.versions)) == (200, 200)
        assert answer.versions == sorted(answer.versions)
        assert set(answer.versions) <= {FIRST, SECOND}
        newer = answer.versions.index(SECOND) if SECOND in answer.versions else 200
        # The cache holds values of the old weights: only the first tokens can be recomputed.
        head = Answer(request=0, index=0, tokens=answer.tokens[:newer], logprobs=[])
        head.logprobs.extend(answer.logprobs[:newer])
        assert newer == 200 or agrees(model(1), request, head)


def test_weights_of_another_model_are_refused_and_the_old_ones_stay(
    server: InferenceServer,
) -> None:
    tensors = dict(named_tensors(model(1)))
    name = "model.norm.weight"

    with pytest.raises((WeightsDoNotFit, InferenceFailed), match="norm"):
        server.update_weights({name: tensors[name]}, FIRST)
    with pytest.raises((WeightsDoNotFit, InferenceFailed), match="norm"):
        server.update_weights(tensors | {name: tensors[name][:8]}, FIRST)

    request = prompt(1)
    assert server.version < FIRST
    assert all(agrees(model(0), request, answer) for answer in generate_answers(server, request)[0])


def test_a_stop_takes_effect_within_seconds(server: InferenceServer) -> None:
    stop = threading.Event()
    prompts = [prompt(token, answers=64, max_tokens=250) for token in range(8)]
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()

    completions = server.generate(prompts, stop=stop, timeout_seconds=600)

    # Full answers would take half a minute; a busy machine gets ten times the needed time.
    assert time.monotonic() - began < 10
    assert [len(completions) for completions in completions] == [64] * 8
    assert any(
        answer.finish == "cancelled" for completions in completions for answer in completions
    )


def test_an_expired_timeout_is_reported(server: InferenceServer) -> None:
    with pytest.raises(InferenceFailed):
        server.generate([prompt(1, answers=512, max_tokens=250)], stop=NEVER, timeout_seconds=0.2)


def test_a_prompt_without_room_is_refused(server: InferenceServer) -> None:
    with pytest.raises(PromptTooLong):
        generate_answers(server, prompt(*[1] * CONTEXT))


def test_a_token_outside_of_the_vocabulary_is_refused(server: InferenceServer) -> None:
    with pytest.raises(TokenUnknown):
        generate_answers(server, prompt(TOKENIZER.vocab_size))


def test_the_server_reports_when_it_is_ready(server: InferenceServer) -> None:
    assert server.wait_until_ready(timeout_seconds=30, stop=NEVER)


@pytest.mark.parametrize("place", SHARED.values(), ids=SHARED.keys(), indirect=True)
def test_workers_that_share_a_server_replace_its_weights_once(place: Place) -> None:
    workers = [place.connect() for _ in range(3)]
    tensors = dict(named_tensors(model(1)))
    running = [
        threading.Thread(target=worker.update_weights, args=(tensors, FIRST)) for worker in workers
    ]
    for server_name in running:
        server_name.start()
    for server_name in running:
        server_name.join(60)

    assert [worker.version for worker in workers] == [FIRST] * 3
    # `rolldeck serve` rejects a repeated change itself; the others receive only one.
    assert len([call for call in place.calls if "weights" in call]) <= 1
