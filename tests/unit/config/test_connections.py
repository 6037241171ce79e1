"""One URL names a server; each library gets its own spelling of it."""

import pytest

from config.settings.connections import celery_broker, database  # noqa: TID251 under test


def test_a_database_on_a_socket_keeps_its_folder() -> None:
    entry = database("postgresql:///rolldeck?host=/run/deck&user=deck")

    assert (entry["HOST"], entry["NAME"], entry["USER"]) == ("/run/deck", "rolldeck", "deck")


def test_a_database_on_the_network_keeps_its_port_and_password() -> None:
    entry = database("postgresql://deck:p%40ss@db.example:5433/runs")

    assert (entry["HOST"], entry["PORT"]) == ("db.example", "5433")
    assert (entry["USER"], entry["PASSWORD"], entry["NAME"]) == ("deck", "p@ss", "runs")


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("unix:///tmp/x/valkey.sock", "redis+socket:///tmp/x/valkey.sock"),
        ("redis://broker:6379/1", "redis://broker:6379/1"),
    ],
)
def test_celery_spells_sockets_its_own_way(url: str, broker: str) -> None:
    assert celery_broker(url) == broker
