"""The example trainer computes its documented loss and learns from examples."""

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from examples import grpo
from examples.grpo import Learner, NotTrainable, Settings, language_of, parse_args
from rollouts.fleet.engine.transformer import Transformer
from runs.config.rules import run_config
from runs.config.rules.language_config import LanguageConfig, LessonConfig, SamplingConfig
from runs.config.rules.run_config import RunConfig
from tests.unit.rollouts.fleet.engine.small_models import small_config

PROMPT = 2
WIDTH = 6


def learner(**settings: Any) -> Learner:
    torch.manual_seed(0)
    model = Transformer(small_config(vocab_size=12, num_hidden_layers=1))
    return Learner(model, Settings(**settings), seed=0)


def batch(*, sequences: int = 8, group: int = 4, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return groups whose score is the share of tokens below 4."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 12, (sequences, WIDTH)).astype(np.int32)
    masks = tokens.copy()
    masks[:, :PROMPT] = -100
    return {
        "tokens": tokens,
        "masks": masks,
        "scores": (tokens[:, PROMPT:] < 4).mean(axis=1).astype(np.float32),
        "group_index": np.arange(sequences) // group,
        "lengths": np.full(sequences, WIDTH, dtype=np.int32),
        "zero_advantage": np.zeros(sequences, dtype=np.bool_),
        "temperature": np.ones(sequences, dtype=np.float32),
        "inference_logprobs": np.full(tokens.shape, -np.log(12), dtype=np.float32),
        "has_inference_logprobs": np.ones(sequences, dtype=np.bool_),
    }


def weights_of(one: Learner) -> NDArray[Any]:
    return np.concatenate([x.detach().numpy().ravel() for x in one.model.parameters()])


def share_of_good(one: Learner, arrays: dict[str, NDArray[Any]]) -> float:
    with torch.no_grad():
        logits = one.model(torch.from_numpy(arrays["tokens"][:, :-1].astype(np.int64)))
    return float(torch.softmax(logits, -1)[:, PROMPT - 1 :, :4].sum(-1).mean())


@pytest.mark.parametrize("rule", ["grpo", "rloo", "dr_grpo"])
@pytest.mark.parametrize("tis", [None, 2.0])
def test_rewarded_tokens_become_more_likely(rule: str, tis: float | None) -> None:
    one = learner(rule=rule, tis=tis, learning_rate=1e-3)
    before = share_of_good(one, batch())

    for step in range(10):
        metrics = one.learn(batch(sequences=32, seed=step))

    assert share_of_good(one, batch()) > before + 0.05
    assert all(np.isfinite(value) for value in metrics.values())
    assert set(metrics) >= {"loss", "kl", "entropy", "clip_fraction", "reward_mean"}


@pytest.mark.parametrize("rule", ["grpo", "rloo", "dr_grpo"])
def test_a_token_counts_the_same_however_wide_the_batch_is(rule: str) -> None:
    arrays = batch()
    wide = {
        name: np.pad(array, ((0, 0), (0, 9)), constant_values=-100 if name == "masks" else 0)
        if array.ndim == 2
        else array
        for name, array in arrays.items()
    }

    narrow, padded = (learner(rule=rule).learn(one) for one in (arrays, wide))

    assert padded["gradient_norm"] == pytest.approx(narrow["gradient_norm"], rel=1e-4)


def test_groups_without_variance_are_counted_and_have_no_gradient() -> None:
    arrays = batch()
    arrays["scores"][4:] = 1.0
    spoilt = {name: array.copy() for name, array in arrays.items()}
    spoilt["tokens"][4:] = spoilt["masks"][4:] = 7
    one, other = learner(), learner()

    metrics = one.learn(arrays)
    other.learn(spoilt)

    assert (metrics["groups"], metrics["zero_variance_groups"]) == (2, 1)
    np.testing.assert_array_equal(weights_of(one), weights_of(other))


def test_a_batch_without_any_variance_changes_nothing() -> None:
    arrays = batch()
    arrays["scores"][:] = 0.5
    one = learner()
    before = weights_of(one)

    metrics = one.learn(arrays)

    assert metrics["zero_variance_groups"] == 2
    assert "loss" not in metrics
    np.testing.assert_array_equal(weights_of(one), before)


def test_tokens_of_the_environment_are_not_trained() -> None:
    arrays, spoilt = batch(), batch()
    arrays["inference_logprobs"][:, :PROMPT] = 1.0
    spoilt["inference_logprobs"][:, :PROMPT] = -50.0
    one, other = learner(), learner()

    one.learn(arrays)
    other.learn(spoilt)

    np.testing.assert_array_equal(weights_of(one), weights_of(other))


def test_a_ratio_beyond_the_clip_has_no_gradient() -> None:
    arrays = batch(group=8)
    arrays["scores"][:] = [1, *[0] * 7]
    # The rewarded sequence is already far likelier than when it was sampled, the others far less.
    arrays["inference_logprobs"][0] = -9
    arrays["inference_logprobs"][1:] = -0.01
    one = learner()
    before = weights_of(one)

    metrics = one.learn(arrays)

    assert metrics["clip_fraction"] == 1.0
    np.testing.assert_array_equal(weights_of(one), before)


def test_truncated_importance_sampling_bounds_the_weight_of_a_token() -> None:
    arrays = batch()
    arrays["inference_logprobs"][:] = -9.0
    one = learner(tis=2.0)
    rows = one._rows(arrays)

    anchor, correction = one._anchor(rows)

    assert correction[rows.trained].unique().tolist() == [2.0]
    with torch.no_grad():
        assert torch.equal(anchor, one.logprobs(rows)[0])


def test_kl_is_that_between_the_sampler_and_the_trainer() -> None:
    one, arrays = learner(), batch()
    rows = one._rows(arrays)
    with torch.no_grad():
        now = one.logprobs(rows)[0].numpy()
    arrays["inference_logprobs"][:, 1:] = now

    metrics = one.learn(arrays)

    assert metrics["kl"] == pytest.approx(0, abs=1e-6)
    assert metrics["clip_fraction"] == 0
    assert 0 < metrics["entropy"] <= np.log(12)


def test_samples_at_several_temperatures_are_on_policy_before_the_first_update() -> None:
    one, arrays = learner(), batch()
    arrays["temperature"] = np.array([0.5, 0.7, 1.0, 1.3] * 2, dtype=np.float32)
    with torch.no_grad():
        logits = one.model(torch.from_numpy(arrays["tokens"][:, :-1].astype(np.int64))).numpy()
    scaled = logits / arrays["temperature"][:, None, None]
    every = scaled - np.log(np.exp(scaled).sum(-1, keepdims=True))
    sampled = arrays["tokens"][:, 1:, None].astype(np.int64)
    arrays["inference_logprobs"][:, 1:] = np.take_along_axis(every, sampled, -1)[..., 0]

    metrics = one.learn(arrays)

    assert metrics["kl"] == pytest.approx(0, abs=1e-6)
    assert metrics["clip_fraction"] == 0


def test_a_sequence_whose_advantage_is_set_to_zero_has_no_gradient() -> None:
    arrays, spoilt = batch(), batch()
    for each in (arrays, spoilt):
        each["zero_advantage"][2] = True
    spoilt["tokens"][2] = spoilt["masks"][2] = 7
    one, other = learner(), learner()

    one.learn(arrays)
    other.learn(spoilt)

    np.testing.assert_array_equal(weights_of(one), weights_of(other))


def test_a_sequence_without_tokens_is_in_no_baseline() -> None:
    arrays = batch(sequences=9, group=9)
    arrays["lengths"][8], arrays["scores"][8], arrays["masks"][8] = 0, 100.0, -100
    without = {name: array[:8] for name, array in arrays.items()}
    one, other = learner(), learner()

    metrics = one.learn(arrays)
    other.learn(without)

    assert metrics["zero_variance_groups"] == 0
    np.testing.assert_array_equal(weights_of(one), weights_of(other))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda arrays: arrays.pop("inference_logprobs"), "lack inference_logprobs"),
        (lambda arrays: arrays["has_inference_logprobs"].fill(False), "lack inference_logprobs"),
        (lambda arrays: arrays["tokens"].fill(12), "token 12 is outside the model's 12 tokens"),
    ],
)
def test_unusable_batches_are_refused(spoil: Any, message: str) -> None:
    arrays = batch()
    spoil(arrays)

    with pytest.raises(NotTrainable, match=message):
        learner().learn(arrays)


def lessons(*temperatures: float) -> dict[str, Any]:
    drawn = {
        f"lesson-{place}": LessonConfig(
            spec="task:sort", sampling=SamplingConfig(temperature=temperature)
        )
        for place, temperature in enumerate(temperatures)
    }
    return run_config.to_builtins(RunConfig(language=LanguageConfig(lessons=drawn)))


def test_answers_are_drawn_at_one_temperature() -> None:
    assert language_of(lessons(0.7, 0.7))[1] == 0.7
    for wrong in (lessons(1.0, 0.5), lessons(0.0)):
        with pytest.raises(NotTrainable, match="one temperature above 0"):
            language_of(wrong)


def test_a_run_without_lessons_is_refused() -> None:
    with pytest.raises(NotTrainable, match="without lessons, --checkpoint is required"):
        language_of(run_config.to_builtins(RunConfig()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tis", "0"], "--tis: must be above 0"),
        (["--learning-rate", "2"], "--learning-rate: must be between 0 and 1"),
        (["--temperature", "0"], "--temperature: must be above 0"),
        (["--advantages", "gae"], "invalid choice: 'gae'"),
    ],
)
def test_invalid_arguments_are_named(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["grpo", "--run", "demo", *words])

    with pytest.raises(SystemExit):
        parse_args()

    assert message in capsys.readouterr().err


def test_only_the_run_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["grpo", "--run", "words"])

    args = parse_args()

    assert (args.run, args.advantages, args.tis) == ("words", "dr_grpo", None)
    assert args.learning_rate == Settings().learning_rate


def test_the_example_starts_as_a_script_outside_of_the_repository(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Started by its path, it cannot import other examples.
    monkeypatch.setitem(sys.modules, "examples", None)
    monkeypatch.setattr(sys, "argv", ["grpo.py", "--help"])

    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(Path(grpo.__file__)), run_name="__main__")

    assert end.value.code == 0
    assert "--checkpoints" in capsys.readouterr().out
