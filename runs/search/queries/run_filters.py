"""Translate run filters into database queries."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F, Func, Q, QuerySet, TextField, Value

from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.lifecycle import ACTIVE, TERMINAL
from runs.search.rules import Term, parse

_COLUMNS: Final = {
    "step": "served_steps",
    "planned": "num_steps",
    "policy": "policy_step",
    "epoch": "epoch",
    "workers": "num_workers",
    "batch": "batch_size",
}
_TIMES: Final = {"created": "created_at", "changed": "status_changed_at"}
_TEXTS: Final = {
    "name": "name",
    "owner": "created_by__username",
    "preset": "preset",
    "project": "project__name",
}
_LISTS: Final = {"tag": "tags", "env": "environment_words"}
_LOOKUPS: Final = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
# Older runs have earlier times, so comparisons of ages are reversed.
_TURNED: Final = {">": "lt", ">=": "lte", "<": "gt", "<=": "gte"}
_IS: Final[dict[str, Callable[[], Q]]] = {
    "active": lambda: Q(status__in=ACTIVE),
    "over": lambda: Q(status__in=TERMINAL),
    "archived": lambda: Q(archived_at__isnull=False),
    "unbalanced": lambda: ~Q(ledger_problem=""),
}


def filtered(text: str, *, now: datetime) -> QuerySet[Run]:
    """Return the runs that match a filter; archived ones only if it names them.

    Raises:
        InvalidFilter: If a word is invalid.
    """
    terms = parse(text)
    found = Run.objects.all()
    if not any(term.name == "is" and "archived" in term.values for term in terms):
        found = found.filter(archived_at=None)
    for term in terms:
        condition = _condition(term, now)
        found = found.exclude(condition) if term.negated else found.filter(condition)
    return found


def _condition(term: Term, now: datetime) -> Q:
    values: Sequence[Any] = term.values
    if term.name == "is":
        return _any(_IS[value]() for value in values)
    if term.name in ("state", "kind"):
        return Q(**{f"{'status' if term.name == 'state' else 'kind'}__in": values})
    if term.name in _LISTS:
        return _any(_in_list(_LISTS[term.name], term.operator, value) for value in values)
    if term.name in _TEXTS:
        lookup = "icontains" if term.operator == "~" else "iexact"
        return _any(Q(**{f"{_TEXTS[term.name]}__{lookup}": value}) for value in values)
    if term.name in _TIMES:
        return _any(_at(_TIMES[term.name], term.operator, value, now) for value in values)
    return _any(_number(_COLUMNS[term.name], term.operator, value) for value in values)


def _any(conditions: Any) -> Q:
    found = Q(pk__in=[])
    for condition in conditions:
        found |= condition
    return found


def _in_list(column: str, operator: str, value: str) -> Q:
    if operator != "~":
        return Q(**{f"{column}__overlap": [value.lower()]})
    joined = Func(F(column), Value("\n"), function="array_to_string", output_field=TextField())
    return Q(pk__in=Run.objects.annotate(words=joined).filter(words__icontains=value))


def _number(column: str, operator: str, value: float) -> Q:
    if operator in _LOOKUPS:
        return Q(**{f"{column}__{_LOOKUPS[operator]}": value})
    return Q(**{column: int(value)}) if value == int(value) else Q(pk__in=[])


def _at(column: str, operator: str, value: timedelta | datetime, now: datetime) -> Q:
    if isinstance(value, timedelta):
        return Q(**{f"{column}__{_TURNED[operator]}": now - value})
    return Q(**{f"{column}__{_LOOKUPS[operator]}": value})
