"""Prompts of archived groups, as rows for lessons with a data set.

The columns are in docs/reference/archive.md.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rolldeck.archived_groups import ArchivedGroup, ArchiveUnreadable, Row
from rolldeck.groups import IGNORED

PLAIN: Final = frozenset({"role", "content"})
TASKS: Final = pa.schema(
    [
        ("item_id", pa.int64()),
        ("env_id", pa.int64()),
        ("example", pa.string()),
        ("prompt_tokens", pa.list_(pa.int32())),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("best_answer", pa.string()),
        ("sequences", pa.int32()),
        ("score_mean", pa.float64()),
        ("score_min", pa.float64()),
        ("score_max", pa.float64()),
        ("score_std", pa.float64()),
    ]
)


class NoPrompt(ValueError):
    """The sequences of a group do not have a common prompt."""


class Selection(NamedTuple):
    """Limits of the scores of a group."""

    lowest_below: float | None = None
    """Exclusive upper limit of the lowest score; drops groups that all sequences solved."""
    highest_above: float | None = None
    """Exclusive lower limit of the highest score; drops groups that no sequence solved."""

    def has(self, row: Row) -> bool:
        """Return whether the limits include a row of :data:`TASKS`."""
        return (self.lowest_below is None or row["score_min"] < self.lowest_below) and (
            self.highest_above is None or row["score_max"] > self.highest_above
        )


EVERY_GROUP: Final = Selection()


class Tasks:
    """Tasks of an archive, with the groups that are left out."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._count, self._unselected, self._without_prompt = 0, 0, 0
        self._problem = ""

    def __len__(self) -> int:
        """Return the number of tasks so far."""
        return self._count

    @property
    def left_out(self) -> str:
        """Numbers of the groups left out, for the end of a message; empty if there are none."""
        parts = []
        if self._unselected:
            parts.append(f"{self._unselected:,} by their scores")
        if self._without_prompt:
            parts.append(f"{self._without_prompt:,} without a prompt ({self._problem})")
        return f"; groups left out: {', '.join(parts)}" if parts else ""

    def rows(self, groups: Iterable[ArchivedGroup]) -> list[Row]:
        """Return rows of :data:`TASKS` for the selected groups that have a prompt."""
        found = []
        for archived in groups:
            try:
                row = task_of(archived)
            except NoPrompt as error:
                self._without_prompt += 1
                self._problem = self._problem or f"{archived.place}: {error}"
                continue
            if self._selection.has(row):
                found.append(row)
            else:
                self._unselected += 1
        self._count += len(found)
        return found

    def check(self, archive: Path) -> None:
        """Check that there is a task.

        Raises:
            ArchiveUnreadable: With the groups left out, if there is none.
        """
        if not self._count:
            raise ArchiveUnreadable(f"{archive} has no task{self.left_out}")


def task_of(archived: ArchivedGroup) -> Row:
    """Return a row of :data:`TASKS`.

    Raises:
        NoPrompt: With the field and the reason, if the sequences have no common prompt.
    """
    group, scores = archived.group, archived.group.scores.astype(np.float64)
    messages = archived.others.get("messages")
    example = archived.others.get("example")
    prompt = _prompt_messages(messages)
    try:
        tokens = _prompt_tokens(archived)
    except NoPrompt:
        if prompt is None:
            raise
        tokens = None
    return {
        "item_id": archived.row["item_id"],
        "env_id": archived.row["env_id"],
        "example": example if isinstance(example, str) else None,
        "prompt_tokens": tokens,
        "prompt": prompt,
        "best_answer": _last_answer(messages, int(scores.argmax()), sequences=group.sequences),
        "sequences": group.sequences,
        "score_mean": float(scores.mean()),
        "score_min": float(scores.min()),
        "score_max": float(scores.max()),
        "score_std": float(scores.std()),
    }


def _prompt_tokens(archived: ArchivedGroup) -> list[int]:
    """Return the tokens before the first trained one, which all sequences begin with."""
    rows = archived.group.rows
    starts = rows["tokens"].lengths.cumsum()[:-1]
    tokens, masks = (np.split(rows[name].values, starts) for name in ("tokens", "masks"))
    found: list[int] | None = None
    for index, (own, mask) in enumerate(zip(tokens, masks, strict=True)):
        trained = np.flatnonzero(mask != IGNORED)
        if not len(trained):
            continue  # an answer that is not trained on has no known start
        prompt = own[: trained[0]].tolist()
        if not prompt:
            raise NoPrompt(f"masks.{index}: the first token is trained, so there is no prompt")
        if found is not None and prompt != found:
            raise NoPrompt(f"tokens.{index}: the prompt differs from that of other sequences")
        found = prompt
    if found is None:
        raise NoPrompt("masks: no sequence has a trained token")
    return found


def _prompt_messages(messages: Any) -> list[Row] | None:
    """Return the messages before the first answer; None if a lesson cannot render them."""
    prompts = [_before_answer(one) for one in messages] if isinstance(messages, list) else []
    if not prompts or not prompts[0] or any(one != prompts[0] for one in prompts):
        return None
    is_plain = all(set(one) == PLAIN and _is_text(one) for one in prompts[0])
    return prompts[0] if is_plain else None


def _before_answer(messages: Any) -> list[Any]:
    found: list[Any] = []
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, Mapping) or message.get("role") == "assistant":
            break
        found.append(message)
    return found


def _is_text(message: Mapping[str, Any]) -> bool:
    return all(isinstance(message[key], str) for key in PLAIN)


def _last_answer(messages: Any, index: int, *, sequences: int) -> str | None:
    """Return the text of a sequence's last message, if it is an answer.

    None if the messages are not those of all sequences: their order is then unknown.
    """
    own = messages[index] if isinstance(messages, list) and len(messages) == sequences else None
    last = own[-1] if own and isinstance(own, list) else None
    if not isinstance(last, Mapping) or last.get("role") != "assistant":
        return None
    content = last.get("content")
    return content if isinstance(content, str) else None
