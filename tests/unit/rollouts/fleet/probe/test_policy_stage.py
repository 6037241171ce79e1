"""A probe reports the environment before it calls the policy, which may never return."""

import pytest

from rollouts.fleet.policies import factory
from rollouts.fleet.probe.command import probe
from rollouts.fleet.probe.messages import Outcome, ProbeRequest


def test_the_environment_is_reported_before_the_policy_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[Outcome] = []
    before: list[int] = []

    def fail(*_: object, **__: object) -> None:
        before.append(len(reported))
        raise RuntimeError("no policy")

    monkeypatch.setattr(factory, "make_policy", fail)
    request = ProbeRequest(
        kind="environment", spec="gymnasium:CartPole-v1", policy={"kind": "module:a:B"}
    )

    outcome = probe(request, report=reported.append)

    assert before == [1]
    assert [(one.stage, one.observation) for one in reported] == [("policy", "float32 [4]")]
    assert (outcome.stage, outcome.policy_trouble) == ("", "RuntimeError: no policy")
    assert outcome.observation == "float32 [4]"
