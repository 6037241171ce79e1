"""Clients and outages write a limited number of short lines."""

import logging
import sys
from typing import Any

import pytest
from django.db import OperationalError
from django.test import RequestFactory

from config.log_filters import LONGEST_TEXT, MOST_SOURCES, LimitedLines


class Log:
    """A log with its own clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self._filter = LimitedLines()

    def monotonic(self) -> float:
        return self.now

    def write(self, name: str, text: str, error: Exception | None = None, **extra: Any) -> None:
        if error is not None:
            try:
                raise error
            except type(error):
                extra["exc_info"] = sys.exc_info()
        exc_info = extra.pop("exc_info", None)
        record = logging.makeLogRecord(
            {"name": name, "msg": "%s", "args": (text,), "exc_info": exc_info, **extra}
        )
        if self._filter.filter(record):
            self.lines.append(logging.Formatter().format(record))

    def refuse(self, address: str = "10.0.0.1", text: str = "Not Found: /x", **more: Any) -> None:
        request = RequestFactory().get("/x", REMOTE_ADDR=address)
        facts = {"request": request, "status_code": 404, "name": "django.request", **more}
        self.write(facts.pop("name"), text, **facts)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr("config.log_filters.time.monotonic", log.monotonic)
    return log


@pytest.mark.parametrize("name", ["django.request", "django.security.DisallowedHost"])
@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_lines_about_requests_are_short(log: Log, name: str, status: int) -> None:
    log.refuse(text="Not Found: /" + "a" * 60_000, status_code=status, name=name)
    assert [len(line) for line in log.lines] == [LONGEST_TEXT]


@pytest.mark.parametrize("name", ["django.request", "django.security.csrf", "config.middleware"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429])
@pytest.mark.parametrize("length", [10, 100, 299, 60_000])
def test_refusals_of_an_address_are_at_most_1000_characters_in_any_second(
    log: Log, name: str, status: int, length: int
) -> None:
    at: list[float] = []
    for hundredth in range(3000):
        log.now = hundredth / 100
        log.refuse(name=name, status_code=status, text="a" * min(length, 700))
        at += [log.now] * (len(log.lines) - len(at))
    # A formatted line begins with 50 characters of time, level and logger.
    sizes = [len(line) + 50 for line in log.lines]
    for begin in at:
        assert sum(s for when, s in zip(at, sizes, strict=True) if 0 <= when - begin < 1) <= 1000
    assert sum(sizes) > 30 * 100
    assert log.lines[-1].endswith("similar lines left out)") is (name != "config.middleware")
    log.refuse("10.0.0.2")
    assert log.lines[-1] == "Not Found: /x"


def test_the_memory_for_addresses_is_limited(log: Log) -> None:
    for number in range(MOST_SOURCES + 50):
        log.refuse(f"10.0.{number // 256}.{number % 256}")
    assert len(log._filter._sources) == MOST_SOURCES


def test_an_outage_is_one_line_per_minute_and_logger(log: Log) -> None:
    for second in range(120):
        log.now = float(second)
        for name in ("django.request", "celery.app.trace"):
            log.write(name, "failed", OperationalError("no\nserver"))
    assert log.lines[:2] == ["failed: no server"] * 2
    assert log.lines[2:] == ["failed: no server (59 similar lines left out)"] * 2


def test_readiness_checks_during_an_outage_are_one_line_per_minute(log: Log) -> None:
    for second in range(61):
        log.now = float(second)
        log.refuse(text="Service Unavailable: /healthz/ready", status_code=503)
    assert len(log.lines) == 2


def test_other_lines_are_not_limited(log: Log) -> None:
    for _ in range(100):
        log.write("runs.jobs", "a" * 1000)
        log.write("django.request", "Internal Server Error: /", KeyError("x"), status_code=500)
    assert len(log.lines) == 200
    assert "Traceback" in log.lines[1]


def test_invalid_requests_are_one_line_per_minute(log: Log) -> None:
    for _ in range(100):
        log.write("uvicorn.error", "Invalid HTTP request received.")
    assert len(log.lines) == 1
