"""Every operation answers as the OpenAPI document states, for valid and invalid requests.

The cases are the same in every run: they depend on the document only.
"""

import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import requests
import schemathesis
from django.db import connection
from hypothesis import HealthCheck, Phase, settings
from pytest_django import DjangoDbBlocker
from schemathesis.checks import CHECKS
from schemathesis.generation.meta import TestPhase

from config.seed import deck
from config.seed.scale import SMALL
from tests.factories import make_run
from tests.fuzz.conftest import Platform
from tests.fuzz.known_objects import SPARE, KnownObjects

pytestmark = pytest.mark.django_db


DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
NAMES: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
)
RANDOM: Final = 4
"""Requests for each operation with random values."""
schemathesis.checks.load_all_checks()
CHECKED: Final = [CHECKS.get_one(name) for name in NAMES]
schema = schemathesis.openapi.from_dict(json.loads(DOCUMENT.read_text()))


@schemathesis.serializer(
    *(f"application/vnd.rolldeck.{kind}+msgpack" for kind in ("groups", "fragments", "recording"))
)
def as_bytes(_context: Any, value: Any) -> bytes:
    """Send a binary body as the bytes that were generated."""
    return getattr(value, "data", value if isinstance(value, bytes) else str(value).encode())


@pytest.fixture(scope="module")
def known(platform: Platform, django_db_blocker: DjangoDbBlocker) -> Iterator[KnownObjects]:
    """Seed the database of the module's platform and find its objects."""
    with django_db_blocker.unblock():
        seeded = deck.write(scale=SMALL, clock=now, note=lambda _: None)
        make_run(name=SPARE, kind="outside")
        try:
            yield KnownObjects(platform.lease)
        finally:
            deck.end(seeded.fleets, now=now())
            connection.close()


@pytest.fixture(scope="module")
def http(platform: Platform) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {platform.token}"
        yield session


def now() -> datetime:
    return datetime.now(UTC)


class Boundaries:
    """Chooses the 1st, 2nd, 4th, 8th … of an operation's cases at the boundaries of its schema.

    A large body has a thousand of them, the valid ones first.
    """

    def __init__(self) -> None:
        self._count = 0

    def is_due(self, case: schemathesis.Case) -> bool:
        """Return whether to send a case; random ones always."""
        if case.meta is None or case.meta.phase.name is not TestPhase.COVERAGE:
            return True
        self._count += 1
        return self._count & (self._count - 1) == 0


@pytest.fixture
def boundaries() -> Boundaries:
    return Boundaries()


def test_reads_of_existing_objects_succeed(
    platform: Platform, http: requests.Session, known: KnownObjects
) -> None:
    refused = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.method != "get":
            continue
        case = operation.Case(path_parameters=known.path(operation), query=known.query(operation))
        answer = case.call_and_validate(
            base_url=platform.web.url, session=http, checks=CHECKED, timeout=30
        )
        if answer.status_code >= 300:
            refused[operation.label] = answer.status_code

    # No environment has registered with the default run.
    assert refused == {"GET /status-env": 422}


@schema.parametrize()
@settings(
    max_examples=RANDOM,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_conform_to_the_document(
    case: schemathesis.Case,
    platform: Platform,
    http: requests.Session,
    known: KnownObjects,
    boundaries: Boundaries,
) -> None:
    if not boundaries.is_due(case):
        return
    # Most requests name objects that exist, so that not every answer is 404.
    if zlib.crc32(repr(case.path_parameters).encode()) % 4 and case.path_parameters:
        case.path_parameters |= known.path(case.operation)
    case.call_and_validate(base_url=platform.web.url, session=http, checks=CHECKED, timeout=30)


def test_the_server_met_no_unexpected_error(platform: Platform) -> None:
    assert platform.web.is_live()
    assert "Traceback" not in platform.web.log(), platform.web.log()[-20_000:]
