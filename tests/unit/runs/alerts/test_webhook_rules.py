import hashlib
import hmac
from datetime import timedelta

import pytest

from runs.alerts import rules


@pytest.mark.parametrize(
    "url",
    [
        *("", "hooks.example.org", "ftp://a", "http://", "https:///path", "file:///etc/passwd"),
        *("http://a:99999/", "http://user:secret@a/", "http://[::1", "https://ä.example/"),
        *("https://a/b c", "http://hooks..example.org/", "http://./", f"http://{'a' * 64}.org/"),
    ],
)
def test_an_invalid_webhook_address_is_refused(url: str) -> None:
    with pytest.raises(rules.InvalidWebhook):
        rules.check_url(url)


def test_the_path_of_an_address_is_hidden_and_still_distinguishes_it() -> None:
    url, other = "https://hooks.example.org/T0/secret", "https://hooks.example.org/T0/other"

    assert rules.label(rules.check_url(url)) == "https://hooks.example.org"
    assert "secret" not in rules.fingerprint(url)
    assert rules.fingerprint(url) != rules.fingerprint(other)


def test_a_signature_is_over_the_time_and_the_body() -> None:
    signed = rules.signature("a secret", b'{"a":1}', at_seconds=1_700_000_000)

    expected = hmac.new(b"a secret", b'1700000000.{"a":1}', hashlib.sha256).hexdigest()
    assert signed == f"t=1700000000,v1={expected}"
    assert rules.signature("", b"{}", at_seconds=5) == "t=5"


def test_retry_delays_grow_to_an_hour_and_end() -> None:
    waits = [rules.wait_after(attempts) for attempts in range(1, rules.ATTEMPTS)]
    known = [wait for wait in waits if wait is not None]

    assert known == sorted(known)
    assert (known[0], known[-1]) == (timedelta(seconds=5), timedelta(hours=1))
    assert rules.wait_after(rules.ATTEMPTS) is None
