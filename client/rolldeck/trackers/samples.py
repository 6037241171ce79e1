"""Samples of rollouts with their texts: groups, evaluations of lessons and reports of episodes."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Protocol
from urllib.parse import quote

from rolldeck.errors import RolldeckError
from rolldeck.trackers.contract import RolloutSample
from rolldeck.trackers.cursor import Position

UNREADABLE: Final = frozenset({403, 404, 409, 410, 422})
SEQUENCES_PER_GROUP: Final = 4
"""Also the maximum number of answers of an evaluation."""
CHARACTERS_PER_MESSAGE: Final = 4000
TOKENS_PER_SEQUENCE: Final = 16_384
EVALUATIONS_AT_MOST: Final = 20
"""Maximum of newest evaluations whose answers a request returns."""
Row = Mapping[str, Any]
Params = Mapping[str, str | int]
Read = Callable[[Position, int], Iterator[RolloutSample]]


class Get(Protocol):
    """Requests a path below the run."""

    def __call__(self, rest: str, params: Params | None = None) -> Any:
        """Return the decoded answer."""


class SampleReader:
    """Reads samples of one run."""

    def __init__(self, get: Get, rows: Callable[[str, Params], Iterator[Any]]) -> None:
        """Configure the reader without sending a request.

        Args:
            get: Requests a path below the run.
            rows: Yields the rows of a list below the run.
        """
        self._get = get
        self._rows = rows

    def newest(self, position: Position, kind: str, count: int) -> list[RolloutSample]:
        """Return samples after a position, and advance it; see `RunSource.rollouts`."""
        if count < 1:
            return []
        readers: dict[str, list[Read]] = {
            "fleet": [self._episodes],
            "language": [self._groups, self._evaluations, self._micro_evaluations],
        }
        return [
            sample for read in readers.get(kind, [self._groups]) for sample in read(position, count)
        ]

    def _groups(self, position: Position, count: int) -> Iterator[RolloutSample]:
        page = self._get("/groups", {"limit": count})["results"]
        for group in reversed(page):
            if group["id"] <= position.rollout or not (group["is_digested"] and group["has_bytes"]):
                continue
            position.rollout = group["id"]
            try:
                yield from self._sequences(group)
            except RolldeckError as refusal:
                # Deleted meanwhile, or not for this token; other groups are samples too.
                if refusal.status not in UNREADABLE:
                    raise

    def _sequences(self, group: Row) -> Iterator[RolloutSample]:
        place = f"/groups/{group['id']}/sequences"
        listed = self._get(place)
        for sequence in listed["results"][:SEQUENCES_PER_GROUP]:
            messages: list[Mapping[str, str]] = []
            if listed["has_messages"]:
                query = {"characters": CHARACTERS_PER_MESSAGE, "limit": 100}
                conversation = self._get(f"{place}/{sequence['index']}/messages", query)
                messages = [_message(one["role"], one["text"]) for one in conversation["results"]]
            elif listed["has_text"]:
                window = self._get(f"{place}/{sequence['index']}", {"count": TOKENS_PER_SEQUENCE})
                messages = _turns(window)
            yield RolloutSample(
                id=str(group["id"]),
                sequence=sequence["index"],
                mode="train",
                at=micros(group["received_at"]) / 1e6,
                step=max(0, group["step"] or group["policy_step"] or 0),
                environment=group["environment"] or group["lesson"],
                score=sequence["score"],
                length=sequence["tokens"],
                messages=messages,
            )

    def _episodes(self, position: Position, count: int) -> Iterator[RolloutSample]:
        query = {"limit": count, "after_id": position.rollout}
        for report in reversed(self._get("/episodes", query)["results"]):
            ends = ("terminated", "truncated", "aborted")
            about = ", ".join(f"{report[end]} {end}" for end in ends)
            text = f"{report['count']} {report['mode']} episodes of worker {report['worker']}"
            yield RolloutSample(
                id=str(report["id"]),
                sequence=0,
                mode=report["mode"],
                at=micros(report["at"]) / 1e6,
                step=max(0, report["policy_step"]),
                environment=report["environment"],
                score=report["return_mean"],
                length=report["length_mean"],
                messages=[_message("episodes", f"{text}: {about}")],
            )
            position.rollout = max(position.rollout, report["id"])

    def _evaluations(self, position: Position, count: int) -> Iterator[RolloutSample]:
        query = {"limit": 100, "samples": min(count, EVALUATIONS_AT_MOST)}
        found = [
            (micros(row["finished_at"]), row)
            for row in self._get("/evaluations", query)["results"]
            if row["samples"]
        ]
        after = position.evaluation
        for at, row in sorted(found, key=lambda one: one[0]):
            if at > after:
                yield from _answers(row, row["samples"], "eval", row["lesson"], at, row["id"])
                position.evaluation = at

    def _micro_evaluations(self, position: Position, count: int) -> Iterator[RolloutSample]:
        """Yield answers of the lessons whose micro-evaluations are the newest ones."""
        found = []
        for lesson in self._micro_evaluated()[:count]:
            place = f"/lessons/{quote(lesson, safe='')}/micro-evaluations"
            rows = self._get(place, {"limit": EVALUATIONS_AT_MOST, "samples": 1})["results"]
            found += [(row["id"], lesson, row) for row in rows if row["answers"]]
        after = position.micro_evaluation
        for number, lesson, row in sorted(found, key=lambda one: one[0]):
            if number > after:
                at = micros(row["at"])
                yield from _answers(row, row["answers"], "micro_eval", lesson, at, str(number))
                position.micro_evaluation = number

    def _micro_evaluated(self) -> list[str]:
        """Return the lessons with a series of micro-evaluations, newest sample first."""
        keys = self._rows("/metrics/keys", {"prefix": "micro_eval/", "limit": 500})
        found = [(key["at"], key["name"].split("/")) for key in keys]
        named = [(at, parts[1]) for at, parts in found if parts[2:] == ["success"]]
        return [lesson for _, lesson in sorted(named, reverse=True)]


def micros(text: str) -> int:
    """Return a time of the API in µs since 1970."""
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


def _answers(
    row: Row, answers: list[Row], mode: str, lesson: str, at: int, number: str
) -> Iterator[RolloutSample]:
    for place, answer in enumerate(answers[:SEQUENCES_PER_GROUP]):
        yield RolloutSample(
            id=number,
            sequence=place,
            mode=mode,
            at=at / 1e6,
            step=max(0, row["policy_step"]),
            environment=lesson,
            score=answer["reward"],
            length=None,
            messages=[
                _message("prompt", answer["prompt"]),
                _message("response", answer["response"]),
            ],
        )


def _turns(window: Row) -> list[Mapping[str, str]]:
    """Return the decoded text of a sequence, divided where the policy begins or ends to write."""
    pieces = zip(window["is_own"], window["text"], strict=True)
    return [
        _message(
            "response" if is_own else "prompt",
            "".join(text for _, text in part)[:CHARACTERS_PER_MESSAGE],
        )
        for is_own, part in groupby(pieces, key=lambda piece: piece[0])
    ]


def _message(role: str, text: str) -> Mapping[str, str]:
    return {"role": role, "content": text}
