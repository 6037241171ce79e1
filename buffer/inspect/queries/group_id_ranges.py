"""SQL of group lists, which read no payloads and a bounded number of rows.

A list consists of a *id_range*, a bounded number of rows in index order, and of *conditions* that
filter them. A query with few matches therefore costs no more than one that matches every row; the
result reports how far the search went.
"""

from dataclasses import dataclass
from typing import Any, Final

from buffer.inspect.rules.group_digest import run_term
from buffer.inspect.rules.group_filter import Flag, GroupFilter, ListPosition, Sort, Span
from buffer.inspect.rules.marks import Marked
from buffer.items.rules.states import DropReason, ItemState

_STALE: Final = [DropReason.STALE_VERSION, DropReason.STALE_EPOCH, DropReason.STALE_AGE]
_COLUMNS: Final = """g.id, g.run_id, g.state, g.drop_reason, g.batch_id, g.position, g.epoch,
    g.policy_step, g.env_id, g.received_at, g.size_bytes, g.codec, g.segment, g.origin,
    g.sequences, g.tokens, g.longest_tokens, g.score_mean, g.score_min, g.score_max, g.score_std,
    g.producer"""
_OF_RUN: Final = f"SELECT {_COLUMNS} FROM buffer_trajectorygroup g WHERE g.run_id = %(run)s"  # noqa: S608
_DIGESTED: Final = f"""SELECT {_COLUMNS}, d.score_mean AS by_score, d.longest_tokens AS by_length
    FROM buffer_groupdigest d JOIN buffer_trajectorygroup g ON g.id = d.group_id
    WHERE d.run_id = %(run)s"""  # noqa: S608
_FOUND: Final = f"""SELECT {_COLUMNS} FROM buffer_groupdigest d
    JOIN buffer_trajectorygroup g ON g.id = d.group_id
    WHERE d.run_id = %(run)s AND d.words @@ {{words}}"""  # noqa: S608
# Marked groups are few compared to the run, so filters on marks find groups of any age.
_MARKED: Final = f"""SELECT {_COLUMNS} FROM buffer_groupmark m
    JOIN buffer_trajectorygroup g ON g.id = m.group_id WHERE m.run_id = %(run)s"""  # noqa: S608
_IN_SETS: Final = f"""{_OF_RUN} AND g.id IN (
    SELECT s.group_id FROM buffer_setmember s JOIN buffer_groupset t ON t.id = s.set_id
    WHERE t.run_id = %(run)s AND t.name = ANY(%(set_values)s))"""  # noqa: S608
_PROMPTED: Final = f"""SELECT {_COLUMNS} FROM buffer_groupdigest d
    JOIN buffer_trajectorygroup g ON g.id = d.group_id
    WHERE d.run_id = %(run)s AND d.prompt = %(prompt)s"""  # noqa: S608
_MARK_IS: Final = {Marked.PINNED: "m.is_pinned", Marked.NOTED: "m.note <> ''"}
_WORDS: Final = "(websearch_to_tsquery('simple', %(text)s) && %(run_term)s::tsquery)"
JOINED: Final = """LEFT JOIN buffer_groupdigest d ON d.group_id = g.id
    LEFT JOIN buffer_batch b ON b.id = g.batch_id"""
WORKER: Final = "COALESCE(NULLIF(d.worker, ''), g.producer)"
_SORTED_BY: Final = {
    Sort.SCORE: ("d.score_mean", "DESC"),
    Sort.SCORE_ASCENDING: ("d.score_mean", "ASC"),
    Sort.LENGTH: ("d.longest_tokens", "DESC"),
    Sort.LENGTH_ASCENDING: ("d.longest_tokens", "ASC"),
}
VALUE_OF: Final = {
    Sort.SCORE: "score_mean",
    Sort.SCORE_ASCENDING: "score_mean",
    Sort.LENGTH: "longest_tokens",
    Sort.LENGTH_ASCENDING: "longest_tokens",
}
FLAGS: Final = {
    Flag.TRUNCATED: "d.truncated > 0",
    Flag.ZERO_VARIANCE: "g.sequences > 1 AND g.score_min = g.score_max",
    Flag.DUPLICATE: "d.duplicates > 0",
    Flag.STALE: f"g.drop_reason IN ({', '.join(repr(str(reason)) for reason in _STALE)})",
    Flag.QUARANTINED: f"g.state = '{ItemState.QUARANTINED}'",
}


@dataclass(frozen=True, slots=True)
class Query:
    """A part of SQL with its parameters."""

    sql: str
    params: dict[str, Any]


def id_range(
    run_id: int,
    group_filter: GroupFilter,
    *,
    rows: int,
    after: ListPosition | None,
    backward: bool = False,
) -> Query:
    """Return the query of at most `rows` groups of a run that a list is filtered from.

    Args:
        run_id: The run.
        group_filter: The filter; its sort, text, batch and states select the index.
        rows: Maximum number of rows.
        after: Position after which the rows begin; None for the beginning.
        backward: Whether to read in reverse order, beginning before `after`.
    """
    params: dict[str, Any] = {"run": run_id, "rows": rows, "run_term": f"'{run_term(run_id)}'"}
    if group_filter.text:
        params["text"] = group_filter.text
    if group_filter.sort is not Sort.NEWEST:
        return _sorted_id_range(group_filter, params, after=after, backward=backward)
    sign, direction = (">", "ASC") if backward else ("<", "DESC")
    beyond = ""
    if after is not None:
        params["after_id"] = after.group_id
        beyond = f" AND g.id {sign} %(after_id)s"
    # Each part has its own LIMIT: otherwise the planner sorts all rows instead of using the index.
    end = f"ORDER BY id {direction} LIMIT %(rows)s"
    parts = [f"{source}{beyond} {end}" for source in _sources(group_filter, params)]
    if len(parts) == 1:
        return Query(parts[0], params)
    return Query(f"{' UNION ALL '.join(f'({part})' for part in parts)} {end}", params)


def _sources(group_filter: GroupFilter, params: dict[str, Any]) -> list[str]:
    if group_filter.batch is not None:
        params["batch"] = group_filter.batch
        return [f"{_OF_RUN} AND g.batch_id = %(batch)s"]
    if group_filter.is_of_marked:
        return _marked_sources(group_filter, params)
    if group_filter.prompt:
        params["prompt"] = group_filter.prompt
        return [_PROMPTED]
    if group_filter.text:
        return [_FOUND.format(words=_WORDS)]
    is_dropped = (
        group_filter.states == (ItemState.DROPPED,)
        or group_filter.reasons
        or Flag.STALE in group_filter.flags
    )
    if is_dropped:
        return [f"{_OF_RUN} AND g.state = 'dropped'"]
    return [f"{_OF_RUN} AND g.segment IS NOT NULL", f"{_OF_RUN} AND g.segment IS NULL"]


def _marked_sources(group_filter: GroupFilter, params: dict[str, Any]) -> list[str]:
    """Return the queries for marked groups; each is one index scan."""
    if group_filter.sets:
        params["set_values"] = list(group_filter.sets)
        return [_IN_SETS]
    if group_filter.labels:
        # A group has one label, so the parts are disjoint.
        return [f"{_MARKED} AND m.label = {int(label)}" for label in group_filter.labels]
    return [f"{_MARKED} AND {' AND '.join(_MARK_IS[Marked(mark)] for mark in group_filter.marks)}"]


def _mark_conditions(group_filter: GroupFilter, params: dict[str, Any]) -> dict[str, str]:
    """Return the conditions on the marks of a row ``g``, by field of the filter."""
    of_group = "SELECT FROM buffer_groupmark m WHERE m.group_id = g.id AND"
    found: dict[str, str] = {}
    if group_filter.labels:
        params["label_values"] = list(group_filter.labels)
        found["label"] = f"EXISTS ({of_group} m.label = ANY(%(label_values)s))"
    if group_filter.marks:
        tests = " AND ".join(_MARK_IS[Marked(mark)] for mark in group_filter.marks)
        found["mark"] = f"EXISTS ({of_group} {tests})"
    if group_filter.sets:
        params["set_values"] = list(group_filter.sets)
        found["set"] = """EXISTS (SELECT FROM buffer_setmember s
            JOIN buffer_groupset t ON t.id = s.set_id
            WHERE s.group_id = g.id AND t.run_id = g.run_id AND t.name = ANY(%(set_values)s))"""
    return found


def _sorted_id_range(
    group_filter: GroupFilter, params: dict[str, Any], *, after: ListPosition | None, backward: bool
) -> Query:
    column, direction = _SORTED_BY[group_filter.sort]
    if backward:
        direction = "ASC" if direction == "DESC" else "DESC"
    source = _DIGESTED
    span = group_filter.scores if column == "d.score_mean" else group_filter.lengths
    source += "".join(f" AND {part}" for part in _within(column, span, "by", params))
    # Part of the id_range, not a later condition: only a few of millions of rows are marked.
    source += "".join(f" AND {part}" for part in _mark_conditions(group_filter, params).values())
    if group_filter.prompt:
        params["prompt"] = group_filter.prompt
        source += " AND d.prompt = %(prompt)s"
    if after is not None:
        sign = "<" if direction == "DESC" else ">"
        params |= {"after_value": after.value, "after_id": after.group_id}
        kind = "float8" if column == "d.score_mean" else "int"
        source += f" AND ({column}, d.group_id) {sign} (%(after_value)s::{kind}, %(after_id)s)"
    order = f"{column} {direction}, d.group_id {direction}"
    return Query(f"{source} ORDER BY {order} LIMIT %(rows)s", params)


def order(group_filter: GroupFilter, *, backward: bool = False) -> str:
    """Return the ORDER BY expression of a list over the rows of a id_range."""
    if group_filter.sort is Sort.NEWEST:
        return f"g.id {'ASC' if backward else 'DESC'}"
    column, direction = _SORTED_BY[group_filter.sort]
    if backward:
        direction = "ASC" if direction == "DESC" else "DESC"
    name = "g.by_score" if column == "d.score_mean" else "g.by_length"
    return f"{name} {direction}, g.id {direction}"


def conditions(group_filter: GroupFilter) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the conditions on a row ``g``, its digest ``d`` and batch ``b``, by filter field."""
    params: dict[str, Any] = {}
    found: dict[str, str] = {}
    for name, expression, values in (
        ("env", "COALESCE(g.env_id, -1)", group_filter.env_ids),
        ("lesson", "d.lesson", group_filter.lessons),
        ("worker", WORKER, group_filter.workers),
        ("state", "g.state", group_filter.states),
        ("reason", "g.drop_reason", group_filter.reasons),
    ):
        if values:
            params[f"{name}_values"] = list(values)
            found[name] = f"{expression} = ANY(%({name}_values)s)"
    for name, expression, span in (
        ("version", "g.policy_step", group_filter.versions),
        ("step", "b.ordinal", group_filter.steps),
        ("score", "g.score_mean", group_filter.scores),
        ("length", "g.longest_tokens", group_filter.lengths),
    ):
        if not span.is_open:
            found[name] = " AND ".join(_within(expression, span, name, params))
    if group_filter.flags:
        found["flag"] = " AND ".join(f"({FLAGS[Flag(flag)]})" for flag in group_filter.flags)
    found |= _mark_conditions(group_filter, params)
    if group_filter.prompt:
        params["prompt"] = group_filter.prompt
        found["prompt"] = "d.prompt = %(prompt)s"
    is_words_walked = group_filter.sort is Sort.NEWEST and not (
        group_filter.batch or group_filter.is_of_marked or group_filter.prompt
    )
    if group_filter.text and not is_words_walked:
        found["text"] = f"d.words @@ {_WORDS}"
    return found, params


def _within(expression: str, span: Span, name: str, params: dict[str, Any]) -> list[str]:
    parts = []
    for sign, end, bound in ((">=", "least", span.least), ("<=", "most", span.most)):
        if bound is not None:
            params[f"{name}_{end}"] = bound
            parts.append(f"{expression} {sign} %({name}_{end})s")
    return parts
