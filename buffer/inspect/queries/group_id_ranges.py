"""SQL of group lists, which read no payloads and a bounded number of rows.

A list consists of a *source*, a bounded number of rows in index order, and of *tests* that filter
them. A query with few matches therefore costs no more than one that matches every row; the result
reports how far the search went. Each field of the filter is one condition in SQL. It belongs to
the source if an index serves it, else to the tests.
"""

from dataclasses import dataclass
from typing import Any, Final

from buffer.inspect.rules.group_digest import run_term
from buffer.inspect.rules.group_filter import Flag, GroupFilter, ListPosition, Sort
from buffer.items.rules.states import STALE_REASONS, ItemState

_COLUMNS: Final = """g.id, g.run_id, g.state, g.drop_reason, g.batch_id, g.position, g.epoch,
    g.policy_step, g.env_id, g.received_at, g.size_bytes, g.codec, g.segment, g.origin,
    g.sequences, g.tokens, g.longest_tokens, g.score_mean, g.score_min, g.score_max, g.score_std,
    g.producer"""
_GROUPS: Final = "buffer_trajectorygroup g"
_DIGESTS: Final = "buffer_groupdigest d JOIN buffer_trajectorygroup g ON g.id = d.group_id"
_MARKS: Final = "buffer_groupmark m JOIN buffer_trajectorygroup g ON g.id = m.group_id"
JOINED: Final = """LEFT JOIN buffer_groupdigest d ON d.group_id = g.id
    LEFT JOIN buffer_groupmark m ON m.group_id = g.id
    LEFT JOIN buffer_batch b ON b.id = g.batch_id"""
WORKER: Final = "COALESCE(NULLIF(d.worker, ''), g.producer)"
VALUE_OF: Final = {
    Sort.SCORE: "score_mean",
    Sort.SCORE_ASCENDING: "score_mean",
    Sort.LENGTH: "longest_tokens",
    Sort.LENGTH_ASCENDING: "longest_tokens",
}
_STALE: Final = ", ".join(f"'{reason}'" for reason in sorted(STALE_REASONS))
FLAGS: Final = {
    Flag.TRUNCATED: "d.truncated > 0",
    Flag.ZERO_VARIANCE: "g.sequences > 1 AND g.score_min = g.score_max",
    Flag.DUPLICATE: "d.duplicates > 0",
    Flag.STALE: f"g.drop_reason IN ({_STALE})",
    Flag.QUARANTINED: f"g.state = '{ItemState.QUARANTINED}'",
}


@dataclass(frozen=True, slots=True)
class ListQuery:
    """SQL of a list: ``SELECT … FROM (source) g`` with :data:`JOINED`, filtered by `tests`."""

    source: str
    tests: dict[str, str]
    """Conditions on a row ``g``, its digest ``d``, mark ``m`` and batch ``b``, by field."""
    order: str
    params: dict[str, Any]


def list_query(
    run_id: int,
    group_filter: GroupFilter,
    *,
    rows: int,
    after: ListPosition | None,
    backward: bool = False,
) -> ListQuery:
    """Return the query of a list, which reads at most `rows` groups of a run.

    Args:
        run_id: The run.
        group_filter: The filter; its sort and fields select the index.
        rows: Maximum number of rows.
        after: Position after which the rows begin; None for the beginning.
        backward: Whether to read in reverse order, beginning before `after`.
    """
    params: dict[str, Any] = {"run": run_id, "rows": rows, "run_term": f"'{run_term(run_id)}'"}
    tests = _conditions(group_filter, params)
    is_ascending = group_filter.sort in (Sort.SCORE_ASCENDING, Sort.LENGTH_ASCENDING)
    sign, direction = (">", "ASC") if is_ascending is not backward else ("<", "DESC")
    if after is not None:
        params |= {"after_value": after.value, "after_id": after.group_id}
    if group_filter.sort is not Sort.NEWEST:
        return _sorted(group_filter, tests, params, after=after, sign=sign, direction=direction)
    beyond = "" if after is None else f" AND g.id {sign} %(after_id)s"
    # Each part has its own LIMIT: otherwise the planner sorts all rows instead of using the index.
    end = f"ORDER BY id {direction} LIMIT %(rows)s"
    parts = [
        f"SELECT {_COLUMNS} FROM {source}{beyond} {end}"  # noqa: S608 made of constants
        for source in _sources(group_filter, tests)
    ]
    source = parts[0]
    if len(parts) > 1:
        source = f"{' UNION ALL '.join(f'({part})' for part in parts)} {end}"
    return ListQuery(source, tests, f"g.id {direction}", params)


def _sources(group_filter: GroupFilter, tests: dict[str, str]) -> list[str]:
    """Return the tables and conditions of the newest groups, and take these out of the tests."""
    # Marked groups are few compared to the run, so filters on marks find groups of any age.
    for field, tables, of_run in (
        ("batch", _GROUPS, "g.run_id"),
        ("label", _MARKS, "m.run_id"),
        ("mark", _MARKS, "m.run_id"),
        ("prompt", _DIGESTS, "d.run_id"),
        ("text", _DIGESTS, "d.run_id"),
    ):
        if field in tests:
            return [f"{tables} WHERE {of_run} = %(run)s AND {tests.pop(field)}"]
    of_run = f"{_GROUPS} WHERE g.run_id = %(run)s"
    if (
        group_filter.states == (ItemState.DROPPED,)
        or group_filter.reasons
        or Flag.STALE in group_filter.flags
    ):
        return [f"{of_run} AND g.state = 'dropped'"]
    return [f"{of_run} AND g.segment IS NOT NULL", f"{of_run} AND g.segment IS NULL"]


def _sorted(
    group_filter: GroupFilter,
    tests: dict[str, str],
    params: dict[str, Any],
    *,
    after: ListPosition | None,
    sign: str,
    direction: str,
) -> ListQuery:
    """Return the query of a list by score or length, from the digests."""
    value = VALUE_OF[group_filter.sort]
    tables = _DIGESTS
    if "label" in tests or "mark" in tests:
        tables += " JOIN buffer_groupmark m ON m.group_id = g.id AND m.run_id = d.run_id"
    source = f"""SELECT {_COLUMNS}, d.{value} AS sorted_by FROM {tables}
        WHERE d.run_id = %(run)s"""  # noqa: S608 made of constants
    # Part of the source, not a later test: only a few of millions of rows have these.
    range_of_value = "score" if value == "score_mean" else "length"
    for field in ("batch", "label", "mark", "prompt", range_of_value):
        source += f" AND {tests.pop(field)}" if field in tests else ""
    if after is not None:
        kind = "float8" if value == "score_mean" else "int"
        source += f" AND (d.{value}, d.group_id) {sign} (%(after_value)s::{kind}, %(after_id)s)"
    source += f" ORDER BY d.{value} {direction}, d.group_id {direction} LIMIT %(rows)s"
    return ListQuery(source, tests, f"g.sorted_by {direction}, g.id {direction}", params)


def _conditions(group_filter: GroupFilter, params: dict[str, Any]) -> dict[str, str]:
    """Return the condition of each field of the filter that is set; add its parameters."""
    found: dict[str, str] = {}
    for name, expression, values in (
        ("env", "COALESCE(g.env_id, -1)", group_filter.env_ids),
        ("lesson", "d.lesson", group_filter.lessons),
        ("worker", WORKER, group_filter.workers),
        ("state", "g.state", group_filter.states),
        ("reason", "g.drop_reason", group_filter.reasons),
        ("label", "m.label", group_filter.labels),
    ):
        if values:
            params[name] = list(values)
            found[name] = f"{expression} = ANY(%({name})s)"
    # Digests repeat two columns of their groups, for the indexes of sorted lists.
    indexed = "g" if group_filter.sort is Sort.NEWEST else "d"
    for name, expression, span in (
        ("version", "g.policy_step", group_filter.versions),
        ("step", "b.ordinal", group_filter.steps),
        ("score", f"{indexed}.score_mean", group_filter.scores),
        ("length", f"{indexed}.longest_tokens", group_filter.lengths),
    ):
        ends = [(">=", "least", span.least), ("<=", "most", span.most)]
        params |= {f"{name}_{end}": bound for _, end, bound in ends if bound is not None}
        if not span.is_open:
            found[name] = " AND ".join(
                f"{expression} {sign} %({name}_{end})s"
                for sign, end, bound in ends
                if bound is not None
            )
    if group_filter.flags:
        found["flag"] = " AND ".join(f"({FLAGS[Flag(flag)]})" for flag in group_filter.flags)
    if group_filter.is_noted:
        found["mark"] = "m.note <> ''"
    for name, condition, value in (
        ("batch", "g.batch_id = %(batch)s", group_filter.batch),
        ("prompt", "d.prompt = %(prompt)s", group_filter.prompt),
        (
            "text",
            "d.words @@ (websearch_to_tsquery('simple', %(text)s) && %(run_term)s::tsquery)",
            group_filter.text,
        ),
    ):
        if value:
            params[name] = value
            found[name] = condition
    return found
