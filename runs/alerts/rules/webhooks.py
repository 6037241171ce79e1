"""Rules for webhook URLs, signatures and retry intervals."""

import hashlib
import hmac
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

ATTEMPTS: Final = 8
FIRST_WAIT: Final = timedelta(seconds=5)
LONGEST_WAIT: Final = timedelta(hours=1)
_FACTOR: Final = 3
# From RFC 1035.
_LONGEST_HOST, _LONGEST_LABEL = 253, 63
TEST_INTERVAL: Final = timedelta(seconds=10)
"""Minimum interval between two samples of one webhook."""


class InvalidWebhook(ValueError):
    """The URL is not allowed for a webhook."""


def check_url(url: str) -> str:
    """Validate and return the URL of a webhook.

    Raises:
        InvalidWebhook: If it is invalid.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidWebhook(f"{url!r} is not a URL: {error}") from None
    is_plain = url.isascii() and url.isprintable() and " " not in url
    is_host = _is_host(parts.hostname or "")
    if parts.scheme not in {"http", "https"} or not is_host or port == 0 or not is_plain:
        raise InvalidWebhook(f"{url!r} must be http://… or https://…, in ASCII")
    if parts.username or parts.password:
        raise InvalidWebhook("the URL must not contain a user name; use the signature instead")
    return url


def _is_host(name: str) -> bool:
    """Return whether a host name is valid; a trailing root dot is allowed."""
    labels = name.removesuffix(".").split(".")
    return len(name) <= _LONGEST_HOST and all(0 < len(one) <= _LONGEST_LABEL for one in labels)


def label(url: str) -> str:
    """Return the displayable part of a URL: the path is often a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def fingerprint(url: str) -> str:
    """Return a hash that distinguishes URLs without revealing them."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def signature(secret: str, body: bytes, *, at_seconds: int) -> str:
    """Return the signature header, which authenticates sender and time of `body`.

    ``t=<seconds>,v1=<hex>``: HMAC-SHA256 over the seconds since 1970, a dot and the body. Without a
    secret the header contains only the time.
    """
    timestamp = f"t={at_seconds}"
    if not secret:
        return timestamp
    signed = hmac.new(secret.encode(), f"{at_seconds}.".encode() + body, hashlib.sha256)
    return f"{timestamp},v1={signed.hexdigest()}"


def chat_text(text: str) -> str:
    """Escape text for chat systems, where `<…>` is a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def wait_after(attempts: int) -> timedelta | None:
    """Return the wait after this many failed attempts; None to give up."""
    if attempts >= ATTEMPTS:
        return None
    factor: int = _FACTOR ** max(attempts - 1, 0)
    return min(FIRST_WAIT * factor, LONGEST_WAIT)
