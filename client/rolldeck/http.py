"""Carry calls to a Rolldeck or Atropos server through outages and restarts.

A call is sent again only when doing so is harmless: it is idempotent by its method, or it carries
an ``Idempotency-Key`` that stays the same over all its attempts. Every wait is logged, and a
deadline ends them: nothing is retried silently or for ever.
"""

import logging
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec

from rolldeck.closing import Closing
from rolldeck.errors import InvalidAnswer, InvalidRequest, RolldeckError, Unreachable, error_of

logger = logging.getLogger("rolldeck")

# 500 too: a server that dies in the middle of a call may still answer so, and only calls that
# are harmless to repeat come here.
RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
# The first attempt of the same key is still being worked on: its answer will come.
RETRIED_CODES: Final = frozenset({"in_flight"})
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waiting times between attempts: doubling, capped, spread so that clients do not march."""

    first_seconds: float = 0.2
    most_seconds: float = 5.0

    def wait_seconds(self, attempt: int, spread: float) -> float:
        """Return the wait after failed attempt number `attempt`, counted from 1.

        Args:
            attempt: How many attempts have failed.
            spread: Random number in [0, 1); the wait is between half and the full delay.
        """
        delay = min(self.most_seconds, self.first_seconds * 2.0 ** min(attempt - 1, 30))
        return delay * (0.5 + spread / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, described so that it can be sent more than once."""

    method: str
    path: str
    json: object = None
    content: bytes | None = None
    content_type: str = "application/octet-stream"
    fields: Mapping[str, str] | None = None
    files: Mapping[str, tuple[str, bytes, str]] | None = None
    params: Mapping[str, str | int | float] | None = None
    accept: str = "application/json"
    wait_seconds: float = 0.0
    """How long the server may hold the answer back (a long poll), beyond the usual timeout."""
    idempotency_key: str | None = None
    """Given for a call that may be repeated by another process; otherwise one is made up."""
    is_repeatable: bool = True


class Connection(Closing):
    """One server, one token, one pool of sockets; threads may share it."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        retry_for_seconds: float = 120.0,
        backoff: Backoff | None = None,
    ) -> None:
        """Open no socket yet.

        Args:
            url: Base of every path, with a prefix if the server has one; credentials in it are
                sent as HTTP Basic.
            token: Sent as ``Authorization: Bearer``.
            timeout_seconds: For connecting and for each silent stretch of one attempt.
            retry_for_seconds: From the first attempt of a call until no further one is made.
            backoff: Waits between attempts.

        Raises:
            InvalidRequest: If `url` has no scheme or no host.
        """
        _check(url)
        headers = {"User-Agent": "rolldeck-client/0.1"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.url = url
        self.retry_for_seconds = retry_for_seconds
        self._timeout_seconds = timeout_seconds
        self._backoff = backoff or Backoff()
        self._http = httpx.Client(base_url=url, headers=headers)

    def close(self) -> None:
        """Close the sockets."""
        self._http.close()

    def send(self, call: Call) -> httpx.Response:
        """Return the answer to `call`, whose status is below 400.

        Raises:
            Unreachable: If no answer came before the deadline.
            RolldeckError: A subclass for what the server refused, see :mod:`rolldeck.errors`.
        """
        headers = self._headers(call)
        deadline = time.monotonic() + self.retry_for_seconds + call.wait_seconds
        attempt = 0
        while True:
            attempt += 1
            failure, wished = self._attempt(call, headers)
            if isinstance(failure, httpx.Response):
                return failure
            wait = wished
            if wait is None:
                wait = self._backoff.wait_seconds(attempt, random.random())  # noqa: S311
            elif wait < 0:
                raise failure
            if time.monotonic() + wait > deadline:
                if attempt > 1:
                    logger.warning("%s %s given up at attempt %d", call.method, call.path, attempt)
                raise failure
            logger.warning(
                "%s %s failed (attempt %d): %s; again in %.1f s",
                call.method,
                call.path,
                attempt,
                failure,
                wait,
            )
            time.sleep(wait)

    def json(self, call: Call) -> Any:
        """Return the decoded JSON answer to `call`.

        Raises:
            InvalidAnswer: If the body is not JSON.
            RolldeckError: As :meth:`send` does.
        """
        answer = self.send(call)
        if not answer.content:
            return None
        try:
            return msgspec.json.decode(answer.content)
        except msgspec.DecodeError as error:
            raise InvalidAnswer(
                status=answer.status_code,
                code="bad_answer",
                detail=f"{call.method} {call.path} did not answer JSON; is {self.url} a server?",
            ) from error

    @contextmanager
    def opened(self, path: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Give the answer to one GET, its status below 300 and its body not read yet.

        Raises:
            Unreachable: If the connection fails, also while the block reads the body.
            RolldeckError: A subclass for what the server refused.
        """
        try:
            with self._http.stream(
                "GET", path, headers=dict(headers), timeout=self._timeout_seconds
            ) as answer:
                if answer.status_code >= 300:
                    answer.read()
                    raise error_of(answer.status_code, _body_of(answer))
                yield answer
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        text = f"{self.url}: {type(error).__name__} {error}".strip()
        return Unreachable(status=0, code="unreachable", detail=text)

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {"Accept": call.accept}
        if call.method not in SAFE_METHODS and call.is_repeatable:
            headers["Idempotency-Key"] = call.idempotency_key or str(uuid.uuid4())
        if call.content is not None:
            headers["Content-Type"] = call.content_type
        return headers

    def _attempt(
        self, call: Call, headers: Mapping[str, str]
    ) -> tuple[httpx.Response, None] | tuple[RolldeckError, float | None]:
        """Return the answer, or the failure with the wait wished for.

        The wait is None where the client may choose it and negative where waiting is no use.
        """
        timeout = httpx.Timeout(
            self._timeout_seconds, read=self._timeout_seconds + call.wait_seconds
        )
        try:
            answer = self._http.request(
                call.method,
                call.path,
                json=call.json,
                content=call.content,
                data=call.fields,
                files=call.files,
                params=call.params,
                headers=dict(headers),
                timeout=timeout,
            )
        except httpx.TransportError as error:
            failure = self._unreachable(error)
            never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            return failure, None if call.is_repeatable or never_sent else -1.0
        if answer.status_code < 300:
            return answer, None
        refusal = error_of(answer.status_code, _body_of(answer))
        retried = answer.status_code in RETRIED_STATUSES or refusal.code in RETRIED_CODES
        if not (retried and call.is_repeatable):
            return refusal, -1.0
        return refusal, retry_after_seconds(answer.headers.get("Retry-After"), datetime.now(UTC))


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid:
        example = f"http://{url.rpartition('://')[2]}" if url else "http://127.0.0.1:8000"
        raise InvalidRequest(
            status=0,
            code="invalid_url",
            detail=f"{url!r} is not the URL of a server; write it like {example}",
        )


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Return the wait that a ``Retry-After`` header asks for; None without a readable one.

    Args:
        header: Seconds, or an HTTP date.
        now: Aware.
    """
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def _body_of(answer: httpx.Response) -> object:
    try:
        return msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        return None
