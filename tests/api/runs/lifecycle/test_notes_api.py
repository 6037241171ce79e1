"""Read and edit notes of a run; concurrent edits are not lost."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.events.models import RunEvent
from runs.lifecycle.models import RunNote
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.schemas import LETTERS_AT_MOST
from tests.factories import make_run, make_user

pytestmark = pytest.mark.django_db
PATH = "/api/v1/runs/alpha/notes"


@pytest.fixture
def olga() -> APIClient:
    make_run(name="alpha", status=RunStatus.COMPLETED)
    client = APIClient()
    client.force_login(make_user(username="olga", role="operator"))
    return client


def write(client: APIClient, text: str, *, revision: int = 0, **fields: Any) -> Any:
    return client.put(PATH, {"text": text, "revision": revision} | fields, format="json")


def test_a_run_has_no_notes_until_they_are_written(olga: APIClient) -> None:
    empty = {"text": "", "revision": 0, "author": "", "at": None}
    assert olga.get(PATH).json() == empty
    assert write(olga, "").json() == empty, "to leave it empty is no edit"

    written = write(olga, "**good** until step 80", reason="after a look")

    assert written.status_code == 200
    assert (written.json()["revision"], written.json()["author"]) == (1, "user:olga")
    event = RunEvent.objects.get(kind="notes_edited")
    assert (event.reason, event.details["revision"]) == (
        "after a look",
        {"before": None, "after": 1},
    )


def test_every_edit_is_a_revision_that_the_admin_lists(olga: APIClient) -> None:
    for revision, text in enumerate(("one", "two, longer", "")):
        assert write(olga, text, revision=revision).status_code == 200

    notes = olga.get(PATH).json()
    assert (notes["text"], notes["revision"]) == ("", 3)
    assert list(RunNote.objects.order_by("revision").values_list("text", flat=True)) == [
        "one",
        "two, longer",
        "",
    ]


def test_the_later_of_two_edits_is_refused_and_nothing_is_lost(olga: APIClient) -> None:
    write(olga, "first")

    refused = write(olga, "second")

    assert (refused.status_code, refused.json()["code"]) == (409, "notes_changed")
    assert "the notes are at revision 1 by user:olga" in refused.json()["detail"]
    assert olga.get(PATH).json()["text"] == "first"
    assert write(olga, "first\n\nsecond", revision=1).status_code == 200


def test_a_repeated_edit_is_answered_as_before(olga: APIClient) -> None:
    assert write(olga, "same").json() == write(olga, "same").json()
    assert RunNote.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"text": "x" * (LETTERS_AT_MOST + 1)}, "text"),
        ({"text": "a\x00b"}, "text"),
        ({"text": 7}, "text"),
        ({"revision": -1}, "revision"),
        ({"more": 1}, "more"),
    ],
)
def test_invalid_notes_are_refused(olga: APIClient, fields: dict[str, Any], field: str) -> None:
    refused = olga.put(PATH, {"text": "", "revision": 0} | fields, format="json")

    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, field)
    assert not RunNote.objects.exists()


def test_an_unknown_run_has_no_notes(olga: APIClient) -> None:
    assert olga.get("/api/v1/runs/nobody/notes").status_code == 404
    body = {"text": "a", "revision": 0}
    assert olga.put("/api/v1/runs/nobody/notes", body, format="json").status_code == 404
