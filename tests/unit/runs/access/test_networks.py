"""Networks from which a token is accepted."""

import pytest

from runs.access.rules import InvalidNetwork, checked, is_within


def test_addresses_and_networks_are_normalized_and_unique() -> None:
    assert checked([" 10.0.0.0/8", "192.168.1.7", "10.0.0.0/8", "fd00::/8"]) == [
        "10.0.0.0/8",
        "192.168.1.7/32",
        "fd00::/8",
    ]


@pytest.mark.parametrize("entry", ["", "everywhere", "10.0.0.1/8", "10.0.0.0/33", "::1::"])
def test_an_invalid_network_is_named(entry: str) -> None:
    with pytest.raises(InvalidNetwork, match="neither an address"):
        checked([entry])


@pytest.mark.parametrize(
    ("address", "is_in"),
    [
        ("10.9.8.7", True),
        ("::ffff:10.9.8.7", True),
        ("11.0.0.1", False),
        ("fd00::5", True),
        ("fe80::5", False),
        ("", False),
        (None, False),
        ("unix:", False),
    ],
)
def test_only_addresses_of_the_networks_are_accepted(address: str | None, is_in: bool) -> None:
    assert is_within(address, ["10.0.0.0/8", "fd00::/8"]) is is_in
