"""Contract of several replicas behind one name, for stand-ins and for vLLM itself.

A subclass whose name begins with `Test` provides the fixture `fleet`.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.engine.engine import Answer, Prompt, Version
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from rollouts.fleet.inference.replicas import ReplicasBehind
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.inference_contract import (
    NEVER,
    agrees,
    connected,
    generate_answers,
    model,
    part_of,
    prompt,
)
from tests.stand_ins.router import Router
from tests.waiting import eventually

VERSIONS = 5
TOKENS = 120


@dataclass(slots=True, kw_only=True)
class Fleet:
    """Replicas of a server behind a router."""

    settings: InferenceServerSettings
    router: Router
    parts: ExitStack
    stop: Callable[[], None]
    """Ends the second replica."""
    start: Callable[[], None]
    """Starts the second replica again, from the folder."""
    labels_exactly: bool = True
    """Whether every token has the version that sampled it."""
    recomputes_cache: bool = False
    """Whether a change of weights recomputes the cache of sequences in progress."""

    def connect(self, **changed: Any) -> InferenceServer:
        """Return a connection of a worker, with some settings changed."""
        return connected(self.parts, replace(self.settings, **changed))()


def weights_of(version: Version) -> Any:
    """Return the model of a version."""
    return model(version[1] + 1)


def publish(server: InferenceServer, version: Version) -> None:
    server.update_weights(dict(named_tensors(weights_of(version))), version)


def is_right(fleet: Fleet, asked: Prompt, answer: Answer) -> bool:
    """Return whether the tokens of each label were sampled with the weights of that version.

    Where labels are not exact: whether no label is newer than the weights.
    """
    if not fleet.labels_exactly:
        first = part_of(answer, slice(0, 1))
        later = [(1, step) for step in range(answer.versions[0][1], VERSIONS)]
        return any(agrees(weights_of(version), asked, first) for version in later)
    change = next(
        (at for at, one in enumerate(answer.versions) if one != answer.versions[0]), TOKENS
    )
    head = part_of(answer, slice(0, change))
    if not agrees(weights_of(answer.versions[0]), asked, head):
        return False
    mixed = set(answer.versions[change:])
    if len(mixed) != 1 or not fleet.recomputes_cache:
        return True
    return agrees(weights_of(mixed.pop()), asked, answer, first=change)


class ReplicaContract:
    """Contract of two replicas behind one name."""

    def test_each_label_is_right_while_weights_roll_over_the_replicas(self, fleet: Fleet) -> None:
        server = fleet.connect()
        publish(server, (1, 0))
        found: list[tuple[Prompt, Answer]] = []
        is_over = threading.Event()

        def generate(first: int) -> None:
            while not is_over.is_set():
                asked = prompt(first, len(found) % 30, answers=2, max_tokens=TOKENS)
                [answers] = server.generate([asked], stop=NEVER, timeout_seconds=120)
                found.extend((asked, answer) for answer in answers)

        asking = [threading.Thread(target=generate, args=(first,)) for first in range(4)]
        for thread in asking:
            thread.start()
        try:
            for step in range(VERSIONS):
                publish(server, (1, step))
                eventually(lambda step=step: found and (1, step) in found[-1][1].versions, 120)
        finally:
            is_over.set()
            for thread in asking:
                thread.join(120)

        assert len(fleet.router.answers) == 2
        assert all(answer.versions == sorted(answer.versions) for _, answer in found)
        assert all(is_right(fleet, asked, answer) for asked, answer in found)

    def test_a_replica_that_cannot_be_reached_gets_the_weights_when_it_returns(
        self, fleet: Fleet
    ) -> None:
        server, stopped = fleet.connect(), fleet.settings.control[1]
        publish(server, (1, 0))
        fleet.stop()

        with pytest.raises(ReplicasBehind, match=f"1 of 2 replicas.*{stopped}"):
            publish(server, (1, 1))
        assert server.version == (1, 1)
        reached, missed = server.replicas()
        assert (reached.version, reached.error) == ((1, 1), "")
        assert (missed.version, missed.address) == ((1, 0), stopped.removeprefix("http://"))
        assert missed.error
        asked = prompt(1, max_tokens=20)
        [meanwhile] = generate_answers(server, asked)
        fleet.start()
        fleet.router.answers.clear()
        found = generate_answers(server, *[asked] * 8)
        publish(server, (1, 1))

        # Where labels are not exact, the replica may have had the earlier version.
        expected = {(1, 1)} if fleet.labels_exactly else {(1, 0)}
        assert {version for answer in meanwhile for version in answer.versions} == expected
        assert all(agrees(weights_of((1, 1)), asked, answer) for answer in meanwhile)
        assert len(fleet.router.answers) == 2
        for answers in found:
            for answer in answers:
                assert set(answer.versions) <= {(1, 1), *expected}
                assert agrees(weights_of((1, 1)), asked, answer)

    def test_an_engine_that_is_missing_in_control_is_detected(self, fleet: Fleet) -> None:
        server = fleet.connect(control=fleet.settings.control[:1])
        publish(server, (1, 3))

        with pytest.raises(InferenceFailed, match="missing in `control`") as failure:
            server.generate([prompt(1)] * 32, stop=NEVER, timeout_seconds=60)
        assert fleet.router.url in str(failure.value)

    def test_a_replica_of_another_model_is_named(self, fleet: Fleet) -> None:
        server = fleet.connect(model="other")

        with pytest.raises(InferenceFailed, match="serves the model small, not other") as failure:
            publish(server, (1, 0))
        assert fleet.settings.control[0] in str(failure.value)
        assert server.version < (1, 0)
