"""Turn the URLs of the database and the broker into the settings of their libraries."""

from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict


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
        # Requests take a connection from the pool and give it back when they end.
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 24, "timeout": 10}},
        "CONN_HEALTH_CHECKS": False,
        "TEST": {"NAME": "test_rolldeck"},
    }


def celery_broker(redis_url: str) -> str:
    """Return Celery's spelling of a Redis URL: unix sockets have a scheme of their own."""
    if redis_url.startswith("unix://"):
        return "redis+socket://" + redis_url.removeprefix("unix://")
    return redis_url


def payload_storage(folder: Path) -> dict[str, Any]:
    """Return Django's entry for where large payloads are kept."""
    return {"BACKEND": "buffer.storage.files.DurableFiles", "OPTIONS": {"location": str(folder)}}
