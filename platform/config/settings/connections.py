"""Convert URLs of servers into the settings of their libraries."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from config import env
from config.env import InvalidSetting
from runs.alerts.rules import InvalidWebhook, check_url
from runs.config.rules import servers

_RUNTIME_ENV_PARTS: Final = {
    *("env_vars", "working_dir", "py_modules", "excludes", "config"),
    *("pip", "uv", "conda", "image_uri"),
}
# Statements are prepared only with an explicit `prepare=True`: Django's default, None, would
# ignore that argument.
ONLY_ON_REQUEST: Final = 1 << 30
POOL_CONNECTIONS: Final = 16
POOL_WAIT_SECONDS: Final = 3.0
RECONNECT_SECONDS: Final = 1.0
_S3_OPTIONS: Final = {"endpoint": "endpoint_url", "region": "region_name"}


def server_url(name: str, default: str = "") -> str:
    """Return the URL ``<name>_URL`` with the password ``<name>_PASSWORD``, if that is set.

    Raises:
        InvalidSetting: If the URL is invalid, or has a password of its own too.
    """
    url, password = env.text(f"{name}_URL", default), env.text(f"{name}_PASSWORD")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for another text than a number
        is_url = "@" not in parts.path and parts.netloc.count("@") < 2 and not parts.fragment
    except ValueError:
        is_url = False
    if not is_url and "://" in url:
        raise InvalidSetting(
            f"{name}_URL is no valid URL; put a password with characters such as / : @ # into "
            f"{name}_PASSWORD"
        )
    if not password:
        return url
    if not url:
        raise InvalidSetting(f"{name}_PASSWORD is set without {name}_URL")
    if parts.password:
        raise InvalidSetting(f"{name}_URL has a password, and {name}_PASSWORD is set; use one")
    user, _, host = parts.netloc.rpartition("@")
    netloc = f"{user.removesuffix(':')}:{quote(password, safe='')}@{host}"
    return urlunsplit(parts._replace(netloc=netloc))


def database(url: str) -> dict[str, Any]:
    """Return Django's entry for a libpq URL, with its query parameters such as a socket folder.

    Raises:
        InvalidSetting: If the URL is invalid.
    """
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as error:
        reason = " ".join(str(error).split())
        if "://" in url:  # without parts of a password
            reason = "put a password with special characters into DATABASE_PASSWORD"
        raise InvalidSetting(f"DATABASE_URL is no valid URL: {reason}") from None
    return {
        "ENGINE": "config.postgresql",
        "NAME": parts.get("dbname", ""),
        "USER": parts.get("user", ""),
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": str(parts.get("port", "")),
        "OPTIONS": {
            # Pages and jobs take a connection from the pool and return it at their end; the
            # threads of config.machines have one connection each outside the pool.
            "pool": {
                "min_size": 1,
                "max_size": POOL_CONNECTIONS,
                # A request that gets none in time fails with 503 and Retry-After.
                "timeout": POOL_WAIT_SECONDS,
                # The pool doubles its delay between connection attempts up to this time. With the
                # default of five minutes, a server that is back after a minute is found half a
                # minute later.
                "reconnect_timeout": RECONNECT_SECONDS,
            },
            "prepare_threshold": ONLY_ON_REQUEST,
        },
        "CONN_HEALTH_CHECKS": False,
        "TEST": {"NAME": "test_rolldeck"},
    }


def url_hosts(*urls: str) -> list[str]:
    """Return the host names of URLs."""
    hosts = (urlsplit(url).hostname for url in urls)
    return [f"[{host}]" if ":" in host else host for host in hosts if host]


def celery_broker(redis_url: str) -> str:
    """Return a Redis URL in Celery's format, which has its own scheme for unix sockets."""
    if redis_url.startswith("unix://"):
        return "redis+socket://" + redis_url.removeprefix("unix://")
    return redis_url


def runtime_env(text: str) -> dict[str, Any]:
    """Return Ray's `runtime_env` for all fleets.

    Args:
        text: A JSON object; empty for none.

    Raises:
        InvalidSetting: If it is not an object, or has a key unknown to Ray. Ray checks the values
            when it launches a manager.
    """
    try:
        parts = json.loads(text or "{}")
    except ValueError as error:
        raise InvalidSetting(f"ROLLDECK_RAY_RUNTIME_ENV is not valid JSON: {error}") from None
    if not isinstance(parts, dict):
        raise InvalidSetting("ROLLDECK_RAY_RUNTIME_ENV must be a JSON object")
    unknown = sorted(parts.keys() - _RUNTIME_ENV_PARTS)
    if unknown:
        raise InvalidSetting(f"ROLLDECK_RAY_RUNTIME_ENV: {unknown[0]!r} is not a valid key")
    return parts


def tool_servers(text: str) -> frozenset[str]:
    """Return the names of the tool servers that lessons may use.

    Args:
        text: A JSON object of descriptions by name; empty for none.

    Raises:
        InvalidSetting: If the text is invalid.
    """
    try:
        return frozenset(servers.parse_tool_servers(text))
    except servers.InvalidToolServers as error:
        raise InvalidSetting(str(error)) from None


def inference_servers(text: str) -> dict[str, servers.OfferedServer]:
    """Return the kinds and ports of the inference servers that runs may use, by name.

    Args:
        text: A JSON object of descriptions by name; empty for none.

    Raises:
        InvalidSetting: If the text is invalid.
    """
    try:
        return servers.offered(text)
    except servers.InvalidInferenceServers as error:
        raise InvalidSetting(str(error)) from None


def payload_storage(url: str, *, folder: Path) -> dict[str, Any]:
    """Return Django's storage entry for large payloads.

    Args:
        url: Empty for files, or ``s3://bucket/prefix?endpoint=…&region=…``; credentials come
            from the standard AWS sources.
        folder: Folder of the files.

    Raises:
        InvalidSetting: If the URL is invalid.
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
        raise InvalidSetting(
            f"ROLLDECK_PAYLOAD_STORAGE: {unknown[0]!r} is not a valid option of s3://"
        )
    return {
        "BACKEND": "buffer.payloads.services.s3.S3Payloads",
        "OPTIONS": {
            "bucket_name": parts.netloc,
            "location": parts.path.strip("/"),
            **{_S3_OPTIONS[name]: value for name, value in options.items()},
        },
    }


def webhooks(urls: list[str]) -> list[str]:
    """Return the distinct URLs of alert webhooks.

    Raises:
        InvalidSetting: If a URL is invalid.
    """
    try:
        return [check_url(url) for url in dict.fromkeys(urls)]
    except InvalidWebhook as error:
        raise InvalidSetting(f"ROLLDECK_ALERT_WEBHOOKS: {error}") from None


class MailServer(NamedTuple):
    """An SMTP server with its credentials."""

    host: str
    port: int
    user: str
    password: str
    is_encrypted: bool
    """Whether the connection uses TLS from the start."""
    is_upgraded: bool
    """Whether the connection switches to TLS by STARTTLS."""


def smtp(url: str) -> MailServer:
    """Parse ``smtp[s]://[user:password@]host[:port][?starttls=1]``.

    Raises:
        InvalidSetting: If the URL is invalid.
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
    """Return the distinct mail addresses of alert recipients.

    Raises:
        InvalidSetting: If an address is invalid.
    """
    found = list(dict.fromkeys(addresses))
    for address in found:
        try:
            validate_email(address)
        except ValidationError:
            problem = f"ROLLDECK_ALERT_EMAILS: {address!r} is not a valid email address"
            raise InvalidSetting(problem) from None
    return found
