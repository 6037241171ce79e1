"""The counters of password attempts."""

import pytest

from runs.access.rules import counters


def keys(name: str, address: str, browser: str = "") -> set[str]:
    return {counter.key for counter in counters(name=name, address=address, browser=browser)}


@pytest.mark.parametrize("name", ["ALICE", "\uff41lice"])
def test_spellings_of_a_name_share_their_counters(name: str) -> None:
    assert keys(name, "192.0.2.1") == keys("alice", "192.0.2.1")


@pytest.mark.parametrize(
    ("one", "other"),
    [("2001:db8::1", "2001:db8::ffff:2"), ("192.0.2.1", "::ffff:192.0.2.1"), ("", "")],
)
def test_addresses_of_one_client_share_their_counters(one: str, other: str) -> None:
    assert keys("alice", one) == keys("alice", other)


def test_names_share_the_counter_of_their_address_and_addresses_that_of_their_name() -> None:
    one = keys("alice", "192.0.2.1")

    assert len(one & keys("bob", "192.0.2.1")) == 1
    assert len(one & keys("alice", "192.0.2.2")) == 1
    assert not one & keys("bob", "2001:db8::1")


def test_a_known_browser_shares_no_counter() -> None:
    assert len(keys("alice", "192.0.2.1", "b")) == 1
    assert not keys("alice", "192.0.2.1", "b") & keys("alice", "192.0.2.1")
    assert not keys("alice", "192.0.2.1", "b") & keys("bob", "192.0.2.1", "b")
