"""A run keeps, drops or truncates groups with sequences longer than its maximum."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pytest
from django.db import connection

from buffer.items.queries import ledger_part
from config.monitoring import metrics_text
from rolldeck.group_encoding import to_json
from rolldeck.groups import read
from runs.events.models import RunEvent
from tests.api.buffer.ingest.test_advantages_at_ingest import Server
from tests.buffer_factories import group

pytestmark = pytest.mark.django_db(transaction=True)
CODECS = ["json", "msgpack"]
LONGEST = 4


@pytest.fixture
def server() -> Server:
    """A run of sequences of at most four tokens, in batches of four sequences."""
    found = Server()
    type(found.run).objects.update(max_token_len=LONGEST)
    return found


def long_group(*, masked: int = 0, **fields: Any) -> dict[str, Any]:
    """Return two sequences of six tokens, whose first `masked` tokens are not trained."""
    tokens = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]
    return {
        "tokens": tokens,
        "masks": [[-100] * masked + row[masked:] for row in tokens],
        "scores": [0.0, 1.0],
        "inference_logprobs": [[-0.5 * at for at in range(6)]] * 2,
        "messages": [[{"role": "user", "content": "six"}]] * 2,
        **fields,
    }


def truncated(server: Server) -> int:
    """Return the count of truncated groups, as shown by the API, the page and the metrics."""
    found = int(server.operator.get("/api/v1/runs/demo/ledger").json()["truncated"])
    assert ledger_part(server.run.pk).truncated == found
    scraped = metrics_text().decode()
    assert f'rolldeck_truncated_groups{{run="demo"}} {found}.0' in scraped
    return found


def rows(content: bytes, codec: str, name: str) -> list[list[float]]:
    found = read(content, codec).rows[name]
    return [row.tolist() for row in np.split(found.values, np.cumsum(found.lengths)[:-1])]


def test_a_run_keeps_overlong_groups_by_default(server: Server) -> None:
    answer = server.push_as("json", long_group(), long_group())

    assert "dropped" not in answer
    assert [rows(one, "json", "tokens")[0] for one in server.stored()] == [[1, 2, 3, 4, 5, 6]] * 2


@pytest.mark.parametrize("codec", CODECS)
def test_a_dropped_group_is_counted(server: Server, codec: str) -> None:
    server.change(overlong_sequences="drop")
    answer = server.push_as(codec, long_group(), group(tokens=LONGEST))

    assert answer["dropped"] == {"overlong": 1}
    ledger = server.ledger()
    assert (ledger.accepted, ledger.queued, ledger.dropped) == (2, 1, {"overlong": 1})


@pytest.mark.parametrize("codec", CODECS)
def test_every_field_with_one_value_per_token_is_truncated(server: Server, codec: str) -> None:
    server.change(overlong_sequences="truncate")
    distilled = [[[at] for at in range(6)]] * 2
    sent = long_group(
        masked=2,
        advantages=[[0.25] * 6] * 2,
        distill_token_ids=distilled,
        distill_logprobs=[[[-1.0]] * 6] * 2,
        mine={"kept": [1, 2, 3, 4, 5, 6]},
    )
    server.push_as(codec, sent, sent)
    [content, _] = server.stored()
    found = read(content, codec)

    assert rows(content, codec, "tokens") == [[1, 2, 3, 4], [7, 8, 9, 10]]
    assert rows(content, codec, "masks") == [[-100, -100, 3, 4], [-100, -100, 9, 10]]
    assert rows(content, codec, "inference_logprobs") == [[0.0, -0.5, -1.0, -1.5]] * 2
    assert rows(content, codec, "advantages") == [[0.25] * 4] * 2
    ids = msgspec.json.decode(to_json(found))["distill_token_ids"]
    assert ids == [[[0], [1], [2], [3]]] * 2
    assert found.scores.tolist() == [0.0, 1.0]
    assert b"six" in found.json["messages"]
    assert msgspec.json.decode(found.json["mine"]) == {"kept": [1, 2, 3, 4, 5, 6]}
    assert server.ledger().queued == 0
    assert truncated(server) == 2
    [event] = RunEvent.objects.filter(kind="odd_groups")
    assert event.message == "accepted groups with an anomaly: tokens: truncated to 4"


@pytest.mark.parametrize("codec", CODECS)
def test_a_sequence_without_trained_tokens_drops_its_group(server: Server, codec: str) -> None:
    server.change(overlong_sequences="truncate")
    answer = server.push_as(codec, long_group(masked=LONGEST))

    assert answer["dropped"] == {"overlong": 1}
    assert truncated(server) == 0


def test_irregular_distillation_is_truncated_too(server: Server) -> None:
    server.change(overlong_sequences="truncate")
    ragged = [[[1], [2, 3], [4], [5], [6], [7]], [[1]] * 6]
    logprobs = [[[-1.0] * len(ids) for ids in row] for row in ragged]
    sent = long_group(distill_token_ids=ragged, distill_logprobs=logprobs)
    server.push_json(sent, sent)

    assert read(server.stored()[0], "json").json["distill_token_ids"] == (
        b"[[[1],[2,3],[4],[5]],[[1],[1],[1],[1]]]"
    )


@contextmanager
def failing(event: str, table: str, condition: str = "true") -> Iterator[None]:
    """Make the database fail writes of a table, as if the server crashed there."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'injected'; END $$;
            CREATE TRIGGER failing BEFORE {event} ON {table}
            FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION fail()"""
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION fail() CASCADE")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(("UPDATE", "runs_run"), id="after the groups"),
        pytest.param(("INSERT", "buffer_tally", "NEW.state = 'truncated'"), id="with the count"),
        pytest.param(("INSERT", "buffer_payload"), id="after the count"),
        pytest.param(("INSERT", "runs_runevent"), id="before the answer"),
    ],
)
def test_a_failure_never_separates_truncated_groups_from_their_count(
    server: Server, codec: str, failure: tuple[str, ...]
) -> None:
    server.change(overlong_sequences="truncate")
    server.http.raise_request_exception = False
    with failing(*failure):
        server.push_as(codec, long_group(), long_group())
    stored = server.ledger().accepted

    assert stored in {0, 2}
    assert truncated(server) == stored
    server.push_as(codec, long_group(mark=1), long_group(mark=2))
    assert truncated(server) == server.ledger().accepted == stored + 2


def test_an_unknown_rule_is_refused_by_name(server: Server) -> None:
    answer = server.change(overlong_sequences="shorten")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "overlong_sequences"
