"""The example really learns, through the platform."""

import numpy as np
import pytest
from pytest_django.live_server_helper import LiveServer

from examples import grpo_arrays
from rolldeck.http import Connection
from runs.lifecycle.models import RunKind
from tests.factories import make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_policy_learns_the_target(live_server: LiveServer) -> None:
    run = make_run(name="demo", kind=RunKind.OUTSIDE)
    token = make_token("env", "trainer", run=run)[1]

    with Connection(live_server.url, token) as connection:
        scores = grpo_arrays.train(connection, "demo", steps=15)

    assert np.mean(scores[:3]) < 0.2
    assert np.mean(scores[-3:]) > 0.8


def test_the_gradient_is_that_of_the_objective() -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(size=grpo_arrays.VOCABULARY)
    labels = rng.integers(-1, grpo_arrays.VOCABULARY, (4, 5))
    arrays = {
        "masks": np.where(labels < 0, -100, labels),
        "group_index": np.array([0, 0, 1, 1]),
        "scores": rng.normal(size=4),
        "lengths": np.full(4, 5),
        "zero_advantage": np.zeros(4, dtype=bool),
        "inference_logprobs": rng.normal(size=(4, 5)) - 3,
    }

    def objective(at: np.ndarray) -> float:
        trained = arrays["masks"] >= 0
        scores = arrays["scores"].reshape(2, 2)
        advantages = (scores - scores.mean(1, keepdims=True)) / (
            scores.std(1, keepdims=True) + 1e-6
        )
        logprobs = grpo_arrays.log_probabilities(at)[np.where(trained, labels, 0)]
        ratios = np.exp(logprobs - arrays["inference_logprobs"])
        return float((advantages.reshape(-1, 1) * ratios * trained).sum() / trained.sum())

    step = 1e-6
    numeric = [
        (objective(logits + step * unit) - objective(logits - step * unit)) / (2 * step)
        for unit in np.eye(grpo_arrays.VOCABULARY)
    ]

    np.testing.assert_allclose(grpo_arrays.gradient(logits, arrays), numeric, rtol=1e-4, atol=1e-7)
