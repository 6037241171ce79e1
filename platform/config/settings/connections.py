"""Turn the URLs of the database and the broker into the settings of their libraries."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from psycopg.conninfo import conninfo_to_dict

from config.env import InvalidSetting
from runs.core import inference_servers as described_servers
from runs.core.webhooks import InvalidWebhook, check_url

_RUNTIME_ENV_PARTS: Final = {
    *("env_vars", "working_dir", "py_modules", "excludes", "config"),
    *("pip", "uv", "conda", "image_uri"),
}
# Statements are prepared where the code says `prepare=True`, and nowhere else: Django's default,
# None, would ignore those words.
ONLY_ON_REQUEST: Final = 1 << 30
POOL_CONNECTIONS: Final = 16
POOL_WAIT_SECONDS: Final = 3.0
RECONNECT_SECONDS: Final = 1.0
_S3_OPTIONS: Final = {"endpoint": "endpoint_url", "region": "region_name"}


def database(url: str) -> dict[str, Any]:
    """Return Django's entry for a libpq URL; query parameters such as a socket folder count."""
    parts = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.get("dbname", ""),
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": str(parts.get("port", "")),
        "OPTIONS": {
            # Pages and jobs take a connection from the pool and give it back when they end; the
            # threads of config.machines have one each beside it.
            "pool": {
                "min_size": 1,
                "max_size": POOL_CONNECTIONS,
                # A request that gets none in time is answered 503 with Retry-After.
                "timeout": POOL_WAIT_SECONDS,
                # The pool doubles its waits between attempts to connect for this long: with its
                # default, five minutes, a server that is back after a minute is found half a
                # minute later.
                "reconnect_timeout": RECONNECT_SECONDS,
            },
            "prepare_threshold": ONLY_ON_REQUEST,
        },
        "CONN_HEALTH_CHECKS": False,
        "TEST": {"NAME": "test_rolldeck"},
    }


def celery_broker(redis_url: str) -> str:
    """Return Celery's spelling of a Redis URL: unix sockets have a scheme of their own."""
    if redis_url.startswith("unix://"):
        return "redis+socket://" + redis_url.removeprefix("unix://")
    return redis_url


def runtime_env(text: str) -> dict[str, Any]:
    """Return Ray's `runtime_env` for all fleets.

    Args:
        text: A JSON object; empty for none.

    Raises:
        InvalidSetting: If it is no object, or has a part that Ray does not know. What a part
            holds is checked by Ray when it launches a manager.
    """
    try:
        parts = json.loads(text or "{}")
    except ValueError as error:
        raise InvalidSetting(f"ROLLDECK_RAY_RUNTIME_ENV is no JSON: {error}") from None
    if not isinstance(parts, dict):
        raise InvalidSetting("ROLLDECK_RAY_RUNTIME_ENV must be a JSON object")
    unknown = sorted(parts.keys() - _RUNTIME_ENV_PARTS)
    if unknown:
        raise InvalidSetting(f"ROLLDECK_RAY_RUNTIME_ENV: {unknown[0]!r} is no part of it")
    return parts


def inference_servers(text: str) -> frozenset[str]:
    """Return the names of the inference servers that runs may ask for.

    Args:
        text: A JSON object of descriptions by name; empty for none.

    Raises:
        InvalidSetting: If it is something else.
    """
    try:
        return frozenset(described_servers.parse(text))
    except described_servers.InvalidInferenceServers as error:
        raise InvalidSetting(str(error)) from None


def payload_storage(url: str, *, folder: Path) -> dict[str, Any]:
    """Return Django's entry for where large payloads are kept.

    Args:
        url: Empty for files, or ``s3://bucket/prefix?endpoint=…&region=…``; credentials come
            from where AWS' tools look for them.
        folder: Of the files.

    Raises:
        InvalidSetting: If the URL means neither.
    """
    if not url:
        return {
            "BACKEND": "buffer.payloads.services.files.DurableFiles",
            "OPTIONS": {"location": str(folder)},
        }
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if parts.scheme != "s3" or not parts.netloc or parts.fragment:
        raise InvalidSetting(f"ROLLDECK_PAYLOAD_STORAGE is {url!r}; it must be s3://bucket/prefix")
    unknown = sorted(options.keys() - _S3_OPTIONS.keys())
    if unknown:
        raise InvalidSetting(f"ROLLDECK_PAYLOAD_STORAGE: {unknown[0]!r} is no option of s3://")
    return {
        "BACKEND": "buffer.payloads.services.s3.S3Payloads",
        "OPTIONS": {
            "bucket_name": parts.netloc,
            "location": parts.path.strip("/"),
            **{_S3_OPTIONS[name]: value for name, value in options.items()},
        },
    }


def webhooks(urls: list[str]) -> list[str]:
    """Return the addresses that alerts are told to, each once.

    Raises:
        InvalidSetting: If one of them is none.
    """
    try:
        return [check_url(url) for url in dict.fromkeys(urls)]
    except InvalidWebhook as error:
        raise InvalidSetting(f"ROLLDECK_ALERT_WEBHOOKS: {error}") from None


class MailServer(NamedTuple):
    """Where mail is handed in."""

    host: str
    port: int
    user: str
    password: str
    is_encrypted: bool
    """From the first byte on."""
    is_upgraded: bool
    """By STARTTLS."""


def smtp(url: str) -> MailServer:
    """Return the mail server of ``smtp[s]://[user:password@]host[:port][?starttls=1]``.

    Raises:
        InvalidSetting: If it is none.
    """
    try:
        parts = urlsplit(url)
        port, options = parts.port, dict(parse_qsl(parts.query))
    except ValueError as error:
        raise InvalidSetting(f"ROLLDECK_SMTP_URL: {error}") from None
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname or set(options) - {"starttls"}:
        raise InvalidSetting("ROLLDECK_SMTP_URL must be smtp[s]://[user:password@]host[:port]")
    is_encrypted = parts.scheme == "smtps"
    return MailServer(
        host=parts.hostname,
        port=port or (465 if is_encrypted else 25),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        is_encrypted=is_encrypted,
        is_upgraded=not is_encrypted and options.get("starttls") == "1",
    )


def mail_addresses(addresses: list[str]) -> list[str]:
    """Return the mail addresses that alerts are told to, each once.

    Raises:
        InvalidSetting: If one of them is none.
    """
    found = list(dict.fromkeys(addresses))
    for address in found:
        try:
            validate_email(address)
        except ValidationError:
            said = f"ROLLDECK_ALERT_EMAILS: {address!r} is no mail address"
            raise InvalidSetting(said) from None
    return found
