"""Rows read without a query equal the rows that Django reads."""

import pytest

from runs.lifecycle.models import Run
from tests.factories import make_run
from web.sql import first_row

pytestmark = pytest.mark.django_db


def test_a_row_is_the_one_that_a_query_gives() -> None:
    made = make_run(name="alpha", kind="fleet", config={})

    row = first_row(Run, "name = %s", ["alpha"])

    assert row is not None
    expected = Run.objects.get(pk=made.pk)
    assert {f.attname: getattr(row, f.attname) for f in Run._meta.concrete_fields} == {
        f.attname: getattr(expected, f.attname) for f in Run._meta.concrete_fields
    }
    assert isinstance(row.config, dict)
    assert not row._state.adding


def test_a_missing_row_is_none() -> None:
    assert first_row(Run, "name = %s", ["nobody"]) is None
