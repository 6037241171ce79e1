"""Put together what finds groups: never a payload, never more rows than a bound.

A list is made of a *stretch*, rows that an index gives in the order of the list, cut after a
number of them, and of *conditions* that keep some of those. So a question that matches next to
nothing costs no more than one that matches everything; the answer says how far it has looked.
"""

from dataclasses import dataclass
from typing import Any, Final

from buffer.inspect.rules.group_digest import run_word
from buffer.inspect.rules.group_filter import Flag, GroupFilter, Place, Sort, Span
from buffer.inspect.rules.marks import Marked
from buffer.items.rules.states import DropReason, Fate

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
# Few rows beside those of the run: whoever asks for what people marked finds it however old it is.
_MARKED: Final = f"""SELECT {_COLUMNS} FROM buffer_groupmark m
    JOIN buffer_trajectorygroup g ON g.id = m.group_id WHERE m.run_id = %(run)s"""  # noqa: S608
_IN_SETS: Final = f"""{_OF_RUN} AND g.id IN (
    SELECT s.group_id FROM buffer_setmember s JOIN buffer_groupset t ON t.id = s.set_id
    WHERE t.run_id = %(run)s AND t.name = ANY(%(set_values)s))"""  # noqa: S608
_PROMPTED: Final = f"""SELECT {_COLUMNS} FROM buffer_groupdigest d
    JOIN buffer_trajectorygroup g ON g.id = d.group_id
    WHERE d.run_id = %(run)s AND d.prompt = %(prompt)s"""  # noqa: S608
_MARK_IS: Final = {Marked.PINNED: "m.is_pinned", Marked.NOTED: "m.note <> ''"}
_WORDS: Final = "(websearch_to_tsquery('simple', %(text)s) && %(run_word)s::tsquery)"
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
    Flag.QUARANTINED: f"g.state = '{Fate.QUARANTINED}'",
}


@dataclass(frozen=True, slots=True)
class Query:
    """A piece of SQL and the values it names."""

    sql: str
    params: dict[str, Any]


def stretch(
    run_id: int, wanted: GroupFilter, *, rows: int, after: Place | None, backward: bool = False
) -> Query:
    """Return the rows of a run that a list is taken from, as a query of at most `rows` groups.

    Args:
        run_id: The run.
        wanted: Its sort, text, batch and states choose the index.
        rows: Bound.
        after: Place behind which they begin; None for the beginning.
        backward: The list the other way round, beginning before `after`.
    """
    params: dict[str, Any] = {"run": run_id, "rows": rows, "run_word": f"'{run_word(run_id)}'"}
    if wanted.text:
        params["text"] = wanted.text
    if wanted.sort is not Sort.NEWEST:
        return _sorted_stretch(wanted, params, after=after, backward=backward)
    sign, direction = (">", "ASC") if backward else ("<", "DESC")
    beyond = ""
    if after is not None:
        params["after_id"] = after.group_id
        beyond = f" AND g.id {sign} %(after_id)s"
    # Each part is cut by itself: only then does the planner walk its index instead of sorting all.
    end = f"ORDER BY id {direction} LIMIT %(rows)s"
    parts = [f"{source}{beyond} {end}" for source in _sources(wanted, params)]
    if len(parts) == 1:
        return Query(parts[0], params)
    return Query(f"{' UNION ALL '.join(f'({part})' for part in parts)} {end}", params)


def _sources(wanted: GroupFilter, params: dict[str, Any]) -> list[str]:
    if wanted.batch is not None:
        params["batch"] = wanted.batch
        return [f"{_OF_RUN} AND g.batch_id = %(batch)s"]
    if wanted.is_of_marked:
        return _marked_sources(wanted, params)
    if wanted.prompt:
        params["prompt"] = wanted.prompt
        return [_PROMPTED]
    if wanted.text:
        return [_FOUND.format(words=_WORDS)]
    is_dropped = wanted.states == (Fate.DROPPED,) or wanted.reasons or Flag.STALE in wanted.flags
    if is_dropped:
        return [f"{_OF_RUN} AND g.state = 'dropped'"]
    return [f"{_OF_RUN} AND g.segment IS NOT NULL", f"{_OF_RUN} AND g.segment IS NULL"]


def _marked_sources(wanted: GroupFilter, params: dict[str, Any]) -> list[str]:
    """Return the parts of what people marked; each is one walk through an index."""
    if wanted.sets:
        params["set_values"] = list(wanted.sets)
        return [_IN_SETS]
    if wanted.labels:
        # A group has one label, so the parts have nothing in common.
        return [f"{_MARKED} AND m.label = {int(label)}" for label in wanted.labels]
    return [f"{_MARKED} AND {' AND '.join(_MARK_IS[Marked(mark)] for mark in wanted.marks)}"]


def _mark_conditions(wanted: GroupFilter, params: dict[str, Any]) -> dict[str, str]:
    """Return what keeps a row ``g`` that people marked, by field of the filter."""
    of_group = "SELECT FROM buffer_groupmark m WHERE m.group_id = g.id AND"
    found: dict[str, str] = {}
    if wanted.labels:
        params["label_values"] = list(wanted.labels)
        found["label"] = f"EXISTS ({of_group} m.label = ANY(%(label_values)s))"
    if wanted.marks:
        tests = " AND ".join(_MARK_IS[Marked(mark)] for mark in wanted.marks)
        found["mark"] = f"EXISTS ({of_group} {tests})"
    if wanted.sets:
        params["set_values"] = list(wanted.sets)
        found["set"] = """EXISTS (SELECT FROM buffer_setmember s
            JOIN buffer_groupset t ON t.id = s.set_id
            WHERE s.group_id = g.id AND t.run_id = g.run_id AND t.name = ANY(%(set_values)s))"""
    return found


def _sorted_stretch(
    wanted: GroupFilter, params: dict[str, Any], *, after: Place | None, backward: bool
) -> Query:
    column, direction = _SORTED_BY[wanted.sort]
    if backward:
        direction = "ASC" if direction == "DESC" else "DESC"
    source = _DIGESTED
    span = wanted.scores if column == "d.score_mean" else wanted.lengths
    source += "".join(f" AND {part}" for part in _within(column, span, "by", params))
    # Not among what is kept of so many rows: of ten million few are marked.
    source += "".join(f" AND {part}" for part in _mark_conditions(wanted, params).values())
    if wanted.prompt:
        params["prompt"] = wanted.prompt
        source += " AND d.prompt = %(prompt)s"
    if after is not None:
        sign = "<" if direction == "DESC" else ">"
        params |= {"after_value": after.value, "after_id": after.group_id}
        kind = "float8" if column == "d.score_mean" else "int"
        source += f" AND ({column}, d.group_id) {sign} (%(after_value)s::{kind}, %(after_id)s)"
    order = f"{column} {direction}, d.group_id {direction}"
    return Query(f"{source} ORDER BY {order} LIMIT %(rows)s", params)


def order(wanted: GroupFilter, *, backward: bool = False) -> str:
    """Return the order of the list, over the rows of a stretch."""
    if wanted.sort is Sort.NEWEST:
        return f"g.id {'ASC' if backward else 'DESC'}"
    column, direction = _SORTED_BY[wanted.sort]
    if backward:
        direction = "ASC" if direction == "DESC" else "DESC"
    name = "g.by_score" if column == "d.score_mean" else "g.by_length"
    return f"{name} {direction}, g.id {direction}"


def conditions(wanted: GroupFilter) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what keeps a row ``g`` with digest ``d`` and batch ``b``, by field of the filter."""
    params: dict[str, Any] = {}
    found: dict[str, str] = {}
    for name, expression, values in (
        ("env", "COALESCE(g.env_id, -1)", wanted.env_ids),
        ("lesson", "d.lesson", wanted.lessons),
        ("worker", WORKER, wanted.workers),
        ("state", "g.state", wanted.states),
        ("reason", "g.drop_reason", wanted.reasons),
    ):
        if values:
            params[f"{name}_values"] = list(values)
            found[name] = f"{expression} = ANY(%({name}_values)s)"
    for name, expression, span in (
        ("version", "g.policy_step", wanted.versions),
        ("step", "b.ordinal", wanted.steps),
        ("score", "g.score_mean", wanted.scores),
        ("length", "g.longest_tokens", wanted.lengths),
    ):
        if not span.is_open:
            found[name] = " AND ".join(_within(expression, span, name, params))
    if wanted.flags:
        found["flag"] = " AND ".join(f"({FLAGS[Flag(flag)]})" for flag in wanted.flags)
    found |= _mark_conditions(wanted, params)
    if wanted.prompt:
        params["prompt"] = wanted.prompt
        found["prompt"] = "d.prompt = %(prompt)s"
    is_words_walked = wanted.sort is Sort.NEWEST and not (
        wanted.batch or wanted.is_of_marked or wanted.prompt
    )
    if wanted.text and not is_words_walked:
        found["text"] = f"d.words @@ {_WORDS}"
    return found, params


def _within(expression: str, span: Span, name: str, params: dict[str, Any]) -> list[str]:
    parts = []
    for sign, end, bound in ((">=", "least", span.least), ("<=", "most", span.most)):
        if bound is not None:
            params[f"{name}_{end}"] = bound
            parts.append(f"{expression} {sign} %({name}_{end})s")
    return parts
