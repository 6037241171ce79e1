"""Contract of servers that sleep, for stand-ins and for vLLM itself.

A subclass whose name begins with `Test` provides the fixture `sleeper`.
"""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.engine.engine import Answer
from rollouts.fleet.inference.http_client import HttpInferenceServer
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.inference_contract import (
    FIRST,
    RUN,
    SECOND,
    agrees,
    generate_answers,
    model,
    prompt,
)


@dataclass(slots=True, kw_only=True)
class Sleeper:
    """A tested server."""

    settings: InferenceServerSettings
    parts: ExitStack
    is_asleep: Callable[[], bool]

    def connect(self) -> HttpInferenceServer:
        """Return a connection of a worker."""
        server = HttpInferenceServer(replace(self.settings, sleep=True), run=RUN)
        self.parts.callback(server.close)
        return server


def check(answers: list[Answer], seed: int, version: tuple[int, int], tokens: int) -> None:
    """Check labels and log probabilities of answers to `prompt(1)`."""
    assert all(set(answer.versions) == {version} for answer in answers)
    assert all(agrees(model(seed), prompt(1, max_tokens=tokens), answer) for answer in answers)


class SleepContract:
    """Contract of a server with `sleep`."""

    def test_it_sleeps_at_rest_and_wakes_for_a_request(self, sleeper: Sleeper) -> None:
        server = sleeper.connect()
        server.rest()
        assert not sleeper.is_asleep()
        server.update_weights(dict(named_tensors(model(1))), FIRST)

        server.rest()
        assert sleeper.is_asleep()
        server.rest()
        [answers] = generate_answers(server, prompt(1))

        assert not sleeper.is_asleep()
        check(answers, 1, FIRST, 12)

    def test_new_weights_wake_it(self, sleeper: Sleeper) -> None:
        server = sleeper.connect()
        server.update_weights(dict(named_tensors(model(1))), FIRST)
        server.rest()

        server.update_weights(dict(named_tensors(model(2))), SECOND)
        server.rest()

        assert sleeper.is_asleep()
        check(generate_answers(server, prompt(1))[0], 2, SECOND, 12)

    def test_it_stays_awake_while_another_worker_uses_it(self, sleeper: Sleeper) -> None:
        first, second = sleeper.connect(), sleeper.connect()
        first.update_weights(dict(named_tensors(model(1))), FIRST)
        answers: list[Answer] = []
        asked = prompt(1, answers=8, max_tokens=200)
        asking = threading.Thread(target=lambda: answers.extend(generate_answers(second, asked)[0]))
        asking.start()
        while second._sleep is None or second._sleep._used is None:
            time.sleep(0.01)

        first.rest()
        assert not sleeper.is_asleep()
        asking.join(120)
        second.rest()

        assert sleeper.is_asleep()
        assert len(answers) == 8
        check(answers, 1, FIRST, 200)

    def test_a_new_worker_wakes_it(self, sleeper: Sleeper) -> None:
        server = sleeper.connect()
        server.update_weights(dict(named_tensors(model(1))), FIRST)
        server.rest()
        assert sleeper.is_asleep()

        check(generate_answers(sleeper.connect(), prompt(1))[0], 1, FIRST, 12)
        assert not sleeper.is_asleep()

    def test_it_stays_awake_while_another_thread_of_a_worker_uses_it(
        self, sleeper: Sleeper
    ) -> None:
        server = sleeper.connect()
        server.update_weights(dict(named_tensors(model(1))), FIRST)
        update = server._weights.update

        def rest_meanwhile(tensors: Any, version: Any) -> None:
            server.rest()
            assert not sleeper.is_asleep()
            update(tensors, version)

        server._weights.update = rest_meanwhile  # type: ignore[method-assign]
        server.update_weights(dict(named_tensors(model(2))), SECOND)
        assert not sleeper.is_asleep()
        server.rest()

        assert sleeper.is_asleep()
        check(generate_answers(server, prompt(1))[0], 2, SECOND, 12)
