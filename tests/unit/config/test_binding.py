"""A network-facing server requires credentials and its own secret key."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from config import binding

SAFE = {"auth": "required", "debug": False, "has_own_secret": True}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_on_loopback_all_settings_are_allowed(host: str) -> None:
    assert binding.dangers(host=host, auth="open", debug=True, has_own_secret=False) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "deck.example", ""])
def test_a_public_address_needs_every_protection(host: str) -> None:
    assert binding.dangers(host=host, **SAFE) == []
    for weakness in ({"auth": "open"}, {"debug": True}, {"has_own_secret": False}):
        assert len(binding.dangers(host=host, **SAFE | weakness)) == 1


@pytest.mark.parametrize(
    ("public_url", "https", "expected"),
    [
        ("http://127.0.0.1:8000", False, 0),
        ("http://localhost:8000", False, 0),
        ("https://deck.example", False, 1),
        ("http://127.0.0.1:8000", True, 1),
    ],
)
def test_open_mode_and_settings_of_a_proxy_exclude_each_other(
    settings: Settings, public_url: str, https: bool, expected: int
) -> None:
    settings.ROLLDECK_PUBLIC_URL, settings.SESSION_COOKIE_SECURE = public_url, https

    assert len(binding.dangers_of_settings()) == expected
    settings.ROLLDECK_AUTH = "required"
    assert binding.dangers_of_settings() == []


def test_a_server_without_a_supervisor_refuses_as_well(settings: Settings) -> None:
    settings.ROLLDECK_HOST = "0.0.0.0"
    settings.ROLLDECK_AUTH = "open"

    with pytest.raises(ImproperlyConfigured, match="ROLLDECK_AUTH"):
        binding.refuse_dangers()
    assert [check.id for check in binding.check_binding()] == ["config.E001"]
