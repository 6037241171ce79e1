"""A run refuses, drops or shrinks pushed groups with sequences that have no score."""

import json
import math
from typing import Any

import numpy as np
import pytest

from buffer.items.models import ShortGroup
from buffer.items.queries import ledger_part
from rolldeck.groups import read
from tests.api.buffer.ingest.test_advantages_at_ingest import Server
from tests.buffer_factories import ENVIRONMENT, body

pytestmark = pytest.mark.django_db(transaction=True)
CODECS = ["json", "msgpack"]


@pytest.fixture
def server() -> Server:
    return Server()


def of_four(*scores: float | None, **fields: Any) -> dict[str, Any]:
    """Return a group of one to four tokens in its sequences."""
    tokens = [[place + 1] * (place + 1) for place in range(len(scores))]
    return {
        "tokens": tokens,
        "masks": tokens,
        "scores": list(scores),
        "inference_logprobs": [[-0.5] * len(row) for row in tokens],
        "messages": [[{"role": "user", "content": f"m{len(row)}"}] for row in tokens],
        "overrides": [{"mark": len(row)} for row in tokens],
        "mine": {"kept": [1, 2, 3, 4]},
        **fields,
    }


def pushed(server: Server, codec: str, *groups: dict[str, Any]) -> Any:
    """Push groups whose missing scores are null in JSON, and NaN in MessagePack."""
    if codec == "msgpack":
        groups = tuple(
            one | {"scores": [math.nan if score is None else score for score in one["scores"]]}
            for one in groups
        )
    return server.push_as(codec, *groups)


@pytest.mark.parametrize("codec", CODECS)
def test_a_push_without_a_score_is_refused_by_default(server: Server, codec: str) -> None:
    answer = pushed(server, codec, of_four(1.0, None))

    assert "scores" in json.dumps(answer)
    assert server.ledger().accepted == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_shrunken_group_has_every_field_of_its_scored_sequences(
    server: Server, codec: str
) -> None:
    server.change(unscored_sequences="shrink", advantages="rloo")
    pushed(server, codec, of_four(1.0, None, 0.0, None), of_four(1.0, 0.0))
    content, _ = server.stored()
    found = read(content, codec)

    assert found.scores.tolist() == [1.0, 0.0]
    assert found.rows["tokens"].lengths.tolist() == [1, 3]
    assert found.rows["inference_logprobs"].lengths.tolist() == [1, 3]
    assert np.unique(found.rows["advantages"].values).tolist() == [-1.0, 1.0]
    assert json.loads(found.json["overrides"]) == [{"mark": 1}, {"mark": 3}]
    assert b"m3" in found.json["messages"]
    assert b"m2" not in found.json["messages"]
    assert json.loads(found.json["mine"]) == {"kept": [1, 2, 3, 4]}
    part = ledger_part(server.run.pk)
    assert part.failed == {"rollout_unscored": 2}
    assert (part.sequences.leased, part.groups.balanced) == (4, True)
    [short] = ShortGroup.objects.all()
    assert (short.rewards, short.tokens, short.is_kept) == ([1.0, 0.0], [1, 3], True)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("settings", "scores", "accepted"),
    [
        ({"unscored_sequences": "drop"}, [1.0, 0.0, None], 1),
        ({"unscored_sequences": "shrink", "least_group_size": 3}, [1.0, 0.0, None], 1),
        ({"unscored_sequences": "shrink"}, [1.0, None, None], 1),
        ({"unscored_sequences": "shrink"}, [None, None], 0),
        ({"unscored_sequences": "drop"}, [None], 0),
    ],
)
def test_a_group_with_too_few_scores_is_dropped_and_counted(
    server: Server, codec: str, settings: dict[str, Any], scores: list[Any], accepted: int
) -> None:
    server.change(**settings)
    answer = pushed(server, codec, of_four(*scores), of_four(1.0, 0.5))

    assert answer["dropped"] == {"short_group": 1}
    ledger = server.ledger()
    assert (ledger.queued, ledger.accepted) == (1, accepted + 1)
    assert ledger.dropped == ({"short_group": 1} if accepted else {})
    assert ledger_part(server.run.pk).failed == {"rollout_unscored": scores.count(None)}
    [short] = ShortGroup.objects.all()
    assert not short.is_kept


def test_a_single_push_of_a_stock_environment_shrinks_and_does_not_wait(server: Server) -> None:
    server.change(unscored_sequences="shrink")
    server.http.get("/atropos/demo/batch", headers={"Authorization": server.trainer})
    answer = server.call("/atropos/demo/register-env", body(ENVIRONMENT), server.env)
    env_id = answer.json()["env_id"]
    environment = server.run.environments.get()
    environment.group_size = 4
    environment.save()
    content = body(of_four(1.0, None, 0.0, 0.5, env_id=env_id))
    answer = server.call("/atropos/demo/scored_data", content, server.env)

    assert answer.json()["status"] == "received"
    assert server.ledger().queued == 1
    [short] = ShortGroup.objects.all()
    assert short.environment == environment.wandb_name


def test_a_repeated_push_counts_its_missing_scores_once(server: Server) -> None:
    server.change(unscored_sequences="shrink")
    content = body([of_four(1.0, 0.5, None)])
    for _ in range(3):
        server.http.post(
            "/api/v1/runs/demo/groups",
            data=content,
            content_type="application/json",
            headers={"Authorization": server.env, "Idempotency-Key": "same"},
        )
    assert ledger_part(server.run.pk).failed == {"rollout_unscored": 1}
    assert ShortGroup.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("unscored_sequences", "refill", "refill"),
        ("least_group_size", 0, ">= 1"),
        ("least_group_size", "two", "int"),
    ],
)
def test_a_policy_that_an_outside_run_cannot_meet_is_refused(
    server: Server, field: str, value: Any, says: str
) -> None:
    answer = server.change(**{field: value})

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
    assert says in json.dumps(answer.json())


def test_missing_scores_of_a_wrong_number_are_refused_even_by_a_lenient_run(
    server: Server,
) -> None:
    server.change(unscored_sequences="shrink", lenient=True)
    answer = pushed(server, "msgpack", of_four(1.0, 0.0) | {"scores": [1.0, None, None]})

    assert "has 3 entries for 2 sequences" in json.dumps(answer)
    assert server.ledger().accepted == 0


def test_the_bias_of_an_outside_run_uses_its_own_smallest_group(server: Server) -> None:
    server.change(unscored_sequences="shrink", least_group_size=3)
    pushed(server, "json", of_four(1.0, 0.0, None), of_four(1.0, 0.0, 0.5))
    found = server.operator.get("/api/v1/runs/demo/bias").json()["short_groups"]

    assert {one["policy"]: one["lost"] for one in found["costs"]} == {
        "drop": 3,
        "shrink": 3,
        "refill": 1,
    }


@pytest.mark.parametrize("scores", [[1.0, "none"], [1.0, {}], [1.0, None, "x"]])
def test_scores_that_are_no_numbers_stay_errors(server: Server, scores: list[Any]) -> None:
    server.change(unscored_sequences="shrink")
    answer = pushed(server, "json", of_four(*scores))

    assert "scores" in json.dumps(answer)
    assert ledger_part(server.run.pk).failed == {}
