"""Rows read without a query equal the rows that Django reads."""

import pytest

from runs.lifecycle.models.runs import Run, Trainer
from tests.factories import make_outside_run, make_run
from web.rows import first_pair, first_row

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


@pytest.mark.parametrize("is_joined", [True, False])
def test_a_pair_is_a_row_and_the_row_that_belongs_to_it(is_joined: bool) -> None:
    made = make_outside_run(name="alpha", trainers=("alice",) if is_joined else ())

    pair = first_pair(
        Run,
        Trainer,
        "runs_trainer.run_id = runs_run.id AND runs_trainer.identity = %(identity)s",
        "runs_run.name = %(name)s",
        {"name": "alpha", "identity": "alice"},
    )

    assert pair is not None
    row, trainer = pair
    assert (row, row.config) == (made, made.config)
    assert trainer == Trainer.objects.filter(run=made).first()
    assert (trainer is not None) is is_joined


def test_a_missing_pair_is_none() -> None:
    pair = first_pair(
        Run, Trainer, "runs_trainer.run_id = runs_run.id", "runs_run.name = %(n)s", {"n": "x"}
    )

    assert pair is None
