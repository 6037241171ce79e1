"""Contract of replicas that load adapters behind one name, for stand-ins and for vLLM itself.

A subclass whose name begins with `Test` provides the fixture `fleet`.
"""

import pytest
from msgspec.structs import replace

from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.http_client import HttpInferenceServer
from rollouts.fleet.inference.replicas import ReplicasBehind
from tests.contract.adapter_contract import ADAPTER, adapted, adapter_of, labels_of
from tests.contract.inference_contract import (
    FIRST,
    NEVER,
    RUN,
    SECOND,
    agrees,
    generate_answers,
    prompt,
)
from tests.contract.replica_contract import Fleet


def connect(fleet: Fleet, count: int = 2) -> HttpInferenceServer:
    """Return a connection with the first replicas in `control`."""
    settings = replace(fleet.settings, control=fleet.settings.control[:count])
    server = HttpInferenceServer(settings, run=RUN, adapter=ADAPTER)
    fleet.parts.callback(server.close)
    return server


class AdapterReplicaContract:
    """Contract of two replicas behind one name."""

    def test_a_replica_that_was_started_again_gets_the_adapter(self, fleet: Fleet) -> None:
        server, stopped = connect(fleet), fleet.settings.control[1]
        server.update_weights(adapter_of(1), FIRST)
        fleet.stop()

        with pytest.raises(ReplicasBehind, match=f"1 of 2 replicas.*{stopped}"):
            server.update_weights(adapter_of(2), SECOND)
        asked = prompt(1, max_tokens=20)
        [meanwhile] = generate_answers(server, asked)
        fleet.start()
        fleet.router.answers.clear()
        found = generate_answers(server, *[asked] * 8)
        server.update_weights(adapter_of(2), SECOND)

        assert server.version == SECOND
        assert len(fleet.router.answers) == 2
        for answers in [meanwhile, *found]:
            assert labels_of(answers) == {SECOND}
            assert all(agrees(adapted(2), asked, answer) for answer in answers)

    def test_an_engine_that_is_missing_in_control_is_detected(self, fleet: Fleet) -> None:
        server = connect(fleet, 1)
        server.update_weights(adapter_of(1), (1, 7))

        with pytest.raises(InferenceFailed, match="missing in `control`") as failure:
            server.generate([prompt(1)] * 32, stop=NEVER, timeout_seconds=60)
        assert fleet.router.url in str(failure.value)
