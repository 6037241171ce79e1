"""Answers end with the stop strings and stop tokens of their lesson."""

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.fleet.engine.building import PLAIN
from rollouts.fleet.engine.engine import (
    Answer,
    Engine,
    Prompt,
    SamplingParams,
    StopTextsUnsupported,
)
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import ByteTokenizer, TokenizerUnusable
from rollouts.fleet.groups.batches import Rollout
from rollouts.fleet.groups.policy_context import check_stop_tokens, ended, scored_text
from runs.config.rules.language_config import SamplingConfig
from tests.unit.rollouts.fleet.engine.small_models import small_model
from tests.unit.rollouts.fleet.groups.conftest import language

MakeBench = Callable[..., Any]
BYTES = ByteTokenizer(PLAIN)


def reverse(**sampling: Any) -> dict[str, Any]:
    kwargs = {"length": 3, "letters": 4}
    return {"spec": "task:reverse", "kwargs": kwargs, "sampling": {"max_tokens": 24, **sampling}}


def answer(text: str, *, finish: Any = "length") -> Answer:
    tokens = BYTES.encode(text)
    return Answer(
        request=0,
        index=0,
        tokens=tokens,
        logprobs=[-float(place) for place in range(len(tokens))],
        versions=[(1, place) for place in range(len(tokens))],
        finish=finish,
    )


def own_text(at: Any, rollout: Rollout) -> str:
    pairs = zip(rollout.tokens, rollout.is_own, strict=True)
    return str(at.tokenizer.decode([token for token, is_own in pairs if is_own]))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("included", [False, True])
def test_the_stop_string_is_in_the_tokens_and_in_the_text_only_on_request(
    bench: MakeBench, mode: str, included: bool
) -> None:
    lesson = reverse(stop=["a", "bc"], include_stop_str_in_output=included)
    at = bench({"r": lesson}, evaluation={"temperature": 1.0})

    batch, _ = at.sample("r", n_examples=16, n_generations=4, mode=mode)

    stopped = [one for one in batch.rollouts if own_text(at, one).endswith(("a", "bc"))]
    assert len(stopped) > 8
    for rollout in batch.rollouts:
        text = own_text(at, rollout)
        assert "a" not in text[:-1]
        assert "bc" not in text[:-1]
        assert rollout.is_truncated == (rollout.own_tokens == 24 and rollout not in stopped)
    for rollout in stopped:
        text = own_text(at, rollout)
        expected = text if included else text[: -2 if text.endswith("bc") else -1]
        assert rollout.response == expected


def test_a_stop_token_ends_an_answer_and_its_text_is_scored_only_on_request(
    bench: MakeBench,
) -> None:
    for included in (False, True):
        lesson = reverse(stop_token_ids=[0], include_stop_str_in_output=included)
        at = bench({"r": lesson})
        first = at.tokenizer.decode([0])

        batch, _ = at.sample("r", n_examples=16, n_generations=4)

        stopped = [one for one in batch.rollouts if own_text(at, one).endswith(first)]
        assert stopped
        for rollout in stopped:
            text = own_text(at, rollout)
            assert text.count(first) == 1
            assert rollout.response == (text if included else text[:-1])


def test_tokens_that_a_server_returns_after_the_stop_string_are_dropped() -> None:
    sampling = SamplingConfig(stop=["END", "STOP"])

    found = ended(answer("one STOP and END", finish="stop"), sampling, BYTES)

    assert BYTES.decode(found.tokens) == "one STOP"
    assert found.logprobs == [-float(place) for place in range(8)]
    assert found.versions == [(1, place) for place in range(8)]
    assert found.finish == "stop"
    assert scored_text(found, sampling, BYTES) == "one "


def test_an_answer_without_its_stop_string_is_unchanged() -> None:
    sampling = SamplingConfig(stop=["STOP"])
    cut = answer("one STO")

    assert ended(cut, sampling, BYTES) == cut
    assert scored_text(cut, sampling, BYTES) == "one STO"


def test_a_stop_token_outside_the_vocabulary_is_refused_with_its_field() -> None:
    config = language({"r": reverse(stop_token_ids=[3, 257])}, model={"tokenizer": "bytes"})

    check_stop_tokens(config, vocab_size=258)
    with pytest.raises(
        TokenizerUnusable, match=r"lessons\.r\.sampling\.stop_token_ids\[1\]: token 257 .* 0 to 256"
    ):
        check_stop_tokens(config, vocab_size=257)


def test_an_engine_without_a_tokenizer_refuses_stop_texts_and_continues() -> None:
    thread = EngineThread(Engine(small_model(), rows=1), context=96)
    try:
        prompt = Prompt(tokens=(1,), sampling=SamplingParams(stop=("a",)))
        with pytest.raises(StopTextsUnsupported):
            thread.submit(prompt, print)
        assert not thread.error
    finally:
        thread.close()
