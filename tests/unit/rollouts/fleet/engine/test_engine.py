"""Answers follow the distribution of a full pass, independent of concurrent requests."""

import threading
from collections import Counter
from copy import deepcopy

import numpy as np
import pytest
import torch

from rollouts.fleet.engine import engine
from rollouts.fleet.engine.engine import (
    Answer,
    Engine,
    Prompt,
    PromptTooLong,
    Rules,
    SamplingParams,
    draw,
    generate,
    uniforms,
)
from rollouts.fleet.engine.serving import EngineFailed, EngineThread
from rollouts.fleet.engine.transformer import Transformer
from tests.unit.rollouts.fleet.device_copies import DeviceCopies
from tests.unit.rollouts.fleet.engine.small_models import logprobs, small_model


@pytest.fixture(scope="module")
def model() -> Transformer:
    return small_model()


def prompt(*tokens: int, answers: int = 1, **sampling: object) -> Prompt:
    return Prompt(
        tokens=tokens or (1, 2, 3),
        sampling=SamplingParams(**sampling),  # type: ignore[arg-type]
        answers=answers,
    )


def worst_difference(model: Transformer, request: Prompt, answer: Answer) -> float:
    actual = logprobs(model, [*request.tokens, *answer.tokens])
    first = len(request.tokens) - 1
    places = range(first, first + len(answer.tokens))
    expected = [
        actual[place, token].item() for place, token in zip(places, answer.tokens, strict=True)
    ]
    return float(np.abs(np.array(expected) - np.array(answer.logprobs)).max())


@pytest.mark.parametrize(
    "shapes",
    [
        {},
        {"num_key_value_heads": 4},
        {"attention_bias": True},
        {"qk_norm": True, "tie_word_embeddings": False},
    ],
    ids=["grouped", "all heads", "biases", "normalised heads"],
)
def test_logprobs_are_those_of_one_full_pass(shapes: dict[str, object]) -> None:
    model = small_model(**shapes)
    prompts = [prompt(*range(1, 2 + n), answers=3, max_tokens=5 + 9 * n, seed=n) for n in range(5)]

    # Fewer rows than answers, so some answers start later than others.
    answers = generate(Engine(model, rows=4), prompts)

    for place, request in enumerate(prompts):
        assert [answer.index for answer in answers[place]] == [0, 1, 2]
        for answer in answers[place]:
            assert len(answer.tokens) == request.sampling.max_tokens
            assert worst_difference(model, request, answer) < 1e-5


def test_an_answer_depends_on_its_seed_only(model: Transformer) -> None:
    request = prompt(4, 5, answers=2, max_tokens=20, seed=7)
    alone = generate(Engine(model, rows=8), [request])[0]
    crowd = [prompt(9, 8, 7, max_tokens=n, seed=n) for n in range(1, 12)]

    among_others = generate(Engine(model, rows=3), [*crowd, request])[len(crowd)]

    assert [other.tokens for other in among_others] == [one.tokens for one in alone]
    assert alone[0].tokens != alone[1].tokens


def test_answers_end_at_a_stop_token_or_their_length(model: Transformer) -> None:
    [free] = generate(Engine(model, rows=1), [prompt(max_tokens=30)])[0]
    stop = free.tokens[4]
    first = free.tokens.index(stop)

    [stopped] = generate(
        Engine(model, rows=1), [prompt(max_tokens=30, stop_tokens=frozenset({stop}))]
    )[0]

    assert (stopped.tokens, stopped.finish) == (free.tokens[: first + 1], "stop")
    assert free.finish == "length"


def test_an_answer_ends_with_the_context(model: Transformer) -> None:
    request = prompt(*[1] * 90, max_tokens=1000)

    [answer] = generate(Engine(model, rows=2), [request])[0]

    assert (len(answer.tokens), answer.finish) == (6, "length")
    assert worst_difference(model, request, answer) < 1e-5


@pytest.mark.parametrize("length", [0, 96, 200])
def test_a_prompt_that_leaves_no_room_is_refused(model: Transformer, length: int) -> None:
    request = Prompt(tokens=(1,) * length, sampling=SamplingParams())
    with pytest.raises(PromptTooLong, match=f"{length} tokens; 1 to 95"):
        Engine(model, rows=1).submit(request)


def test_new_weights_go_in_between_two_steps_and_are_labelled() -> None:
    old, new = small_model(seed=1), small_model(seed=2)
    engine = Engine(old, rows=2, version=(1, 5))
    engine.submit(prompt(max_tokens=8))
    for _ in range(3):
        engine.step()
    engine.adopt(new, (1, 6))
    finished: list[Answer] = []
    while not engine.is_idle:
        finished += [answer for answer in engine.step() if answer.finish]

    [answer] = finished
    assert Counter(answer.versions) == {(1, 5): 4, (1, 6): 4}
    assert answer.versions == sorted(answer.versions)


def test_a_cancelled_request_is_removed_at_once_and_does_not_affect_others(
    model: Transformer,
) -> None:
    staying = prompt(4, 5, max_tokens=20, seed=7)
    [alone] = generate(Engine(model, rows=1), [staying])[0]
    engine = Engine(model, rows=3)
    doomed = engine.submit(prompt(answers=2, max_tokens=50))
    remaining = engine.submit(staying)
    waiting = engine.submit(prompt(max_tokens=50))
    engine.step()
    engine.cancel(doomed)
    engine.cancel(waiting)

    ended: dict[int, list[Answer]] = {}
    while not engine.is_idle:
        for answer in engine.step():
            if answer.finish:
                ended.setdefault(answer.request, []).append(answer)

    assert [answer.finish for answer in ended[doomed]] == ["cancelled"] * 2
    assert ended[remaining][0].tokens == alone.tokens
    assert waiting not in ended


def test_greedy_answers_take_the_likeliest_token(model: Transformer) -> None:
    request = prompt(1, 2, max_tokens=12, temperature=0.0)

    [answer] = generate(Engine(model, rows=1), [request])[0]

    actual = logprobs(model, [1, 2, *answer.tokens])
    assert answer.tokens == actual.argmax(dim=-1)[1:-1].tolist()
    assert worst_difference(model, request, answer) < 1e-5


LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -2.0]])


def frequencies(params: SamplingParams) -> list[float]:
    points = (torch.arange(20_000) + 0.5) / 20_000
    many = LOGITS.expand(len(points), -1)
    rules = Rules.of([params] * len(points), vocab_size=5, device=torch.device("cpu"))
    tokens, logs = draw(many, rules, points)
    temperature = params.temperature or 1.0
    expected = torch.log_softmax(LOGITS[0] / temperature, dim=-1)
    assert torch.allclose(logs, expected[tokens])
    return (torch.bincount(tokens, minlength=5) / len(points)).tolist()


def softmax(temperature: float, choices: int) -> list[float]:
    share = torch.softmax(LOGITS[0] / temperature, dim=-1)
    share[choices:] = 0
    return (share / share.sum()).tolist()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SamplingParams(), softmax(1.0, 5)),
        (SamplingParams(temperature=2.0), softmax(2.0, 5)),
        (SamplingParams(top_k=2), softmax(1.0, 2)),
        # 0.636 and 0.870: the second is needed to reach 0.7.
        (SamplingParams(top_p=0.7), softmax(1.0, 2)),
        (SamplingParams(top_p=0.01), softmax(1.0, 1)),
        (SamplingParams(top_p=0.95, top_k=3, temperature=0.5), softmax(0.5, 2)),
        (SamplingParams(temperature=0.0), [1.0, 0, 0, 0, 0]),
    ],
)
def test_draws_follow_the_distribution(params: SamplingParams, expected: list[float]) -> None:
    assert frequencies(params) == pytest.approx(expected, abs=2e-4)


def test_points_are_even_and_the_same_for_the_same_seed_and_place() -> None:
    seeds = np.repeat(np.arange(100, dtype=np.uint64), 100)
    places = np.tile(np.arange(100, dtype=np.uint64), 100)

    points = uniforms(seeds, places)

    assert np.array_equal(points, uniforms(seeds, places))
    assert ((points >= 0) & (points < 1)).all()
    counts, _ = np.histogram(points, bins=20, range=(0, 1))
    # Chi-squared with 19 degrees of freedom exceeds 43.8 once in a thousand.
    assert ((counts - 500) ** 2 / 500).sum() < 43.8
    assert len(set(points.tolist())) == len(points)


def test_a_step_copies_from_the_device_once(model: Transformer) -> None:
    engine = Engine(model, rows=8)
    for seed, temperature in enumerate([0.0, 1.0, 1.0]):
        engine.submit(prompt(answers=2, max_tokens=6, temperature=temperature, seed=seed, top_k=5))

    with DeviceCopies() as admitting:
        engine.step()
    with DeviceCopies() as extending:
        engine.step()

    # The first tokens of three prompts, and the second ones.
    assert admitting.names == ["cpu", "cpu"]
    assert extending.names == ["cpu"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_close_to_float32(model: Transformer, dtype: torch.dtype) -> None:
    request = prompt(4, 5, answers=4, max_tokens=12, seed=3)

    answers = generate(Engine(deepcopy(model).to(dtype), rows=4), [request])[0]

    assert max(worst_difference(model, request, answer) for answer in answers) < 0.3
    assert all(type(one) is float for answer in answers for one in answer.logprobs)


@pytest.mark.parametrize("length", [1, 2, 60])
def test_log_probabilities_of_a_prompt_are_those_of_one_full_pass(
    model: Transformer, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PROMPT_PLACES", 7)
    tokens = [1 + place % 9 for place in range(length)]
    places = Engine(model, rows=1).prompt_logprobs(tokens, likeliest=1000)

    expected = logprobs(model, tokens)
    assert [next(iter(place)) for place in places] == tokens[1:]
    for at, place in enumerate(places):
        assert len(place) == model.config.vocab_size
        found = np.array([place[token] for token in range(len(place))])
        np.testing.assert_allclose(found, expected[at].numpy(), atol=1e-5)


def test_a_prompt_is_scored_between_the_steps_of_answers(model: Transformer) -> None:
    thread = EngineThread(Engine(model, rows=2), context=model.config.max_position_embeddings)
    try:
        ended = threading.Event()
        thread.submit(prompt(max_tokens=20), lambda answer: answer.finish and ended.set())
        scored = thread.prompt_logprobs([1, 2, 3], likeliest=1).result(30)

        assert scored == Engine(model, rows=1).prompt_logprobs([1, 2, 3], likeliest=1)
        assert ended.wait(30)
        with pytest.raises(EngineFailed, match="IndexError"):
            thread.prompt_logprobs([1, 1 << 20], likeliest=1).result(30)
        with pytest.raises(EngineFailed):
            thread.prompt_logprobs([1, 2], likeliest=1)
    finally:
        thread.close()
