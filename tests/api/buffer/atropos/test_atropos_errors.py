"""Errors of the Atropos routes: FastAPI's format, except for limits of bodies."""

import json
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from buffer.atropos.api.view import AtroposView
from buffer.ingest.services.idempotency import KeyInFlight
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadExpired
from config.decompression import BodyTooLarge, UnknownEncoding
from runs.access.api.permissions import Anyone
from runs.lifecycle.rules import MoveNotAllowed


def answer_to(error: Exception) -> HttpResponse:
    class Raising(AtroposView):
        authentication_classes = []
        permission_classes = [Anyone]

        def get(self, _request: Any) -> HttpResponse:
            raise error

    return Raising.as_view()(RequestFactory().get("/status"))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("error", "status", "wait"),
    [
        (PayloadExpired(ItemKind.GROUPS, 7, why="deleted"), 410, None),
        (MoveNotAllowed("no"), 409, None),
        (KeyInFlight("wait"), 409, "1"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_the_format_of_atropos(
    error: Exception, status: int, wait: str | None
) -> None:
    answer = answer_to(error)

    assert (answer.status_code, answer.get("Retry-After")) == (status, wait)
    assert answer["Content-Type"] == "application/json"
    assert json.loads(answer.content) == {"detail": str(error)}


@pytest.mark.parametrize(
    ("error", "status"), [(BodyTooLarge("big"), 413), (UnknownEncoding("br"), 415)]
)
def test_limits_of_bodies_have_one_format_on_all_routes(error: Exception, status: int) -> None:
    answer = answer_to(error)

    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
