"""Rows read without a query equal the rows that Django reads."""

import pytest

from runs.lifecycle.models.runs import Run
from tests.factories import make_run
from web.rows import first_row

pytestmark = pytest.mark.django_db


def test_a_row_is_the_one_that_a_query_gives() -> None:
    made = make_run(name="alpha", kind="fleet", config={})

    found = first_row(Run, "name = %s", ["alpha"])

    assert found is not None
    expected = Run.objects.get(pk=made.pk)
    assert {f.attname: getattr(found, f.attname) for f in Run._meta.concrete_fields} == {
        f.attname: getattr(expected, f.attname) for f in Run._meta.concrete_fields
    }
    assert isinstance(found.config, dict)
    assert not found._state.adding


def test_no_row_is_none() -> None:
    assert first_row(Run, "name = %s", ["nobody"]) is None
