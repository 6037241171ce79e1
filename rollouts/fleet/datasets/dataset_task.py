"""Tasks of lessons whose problems are the rows of a data set, alone or with tools of a server."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from rollouts.fleet.datasets.rows import (
    DatasetUnusable,
    Row,
    Rows,
    dataset_path,
    datasets_folder,
    has_splits,
    read_split,
    rows_in,
)
from rollouts.fleet.process.settings import derive_seed
from rollouts.fleet.tools.server import ToolFailed, ToolServer
from rollouts.tasks.rules.dataset_config import (
    KIND,
    DatasetConfig,
    ToolsConfig,
    dataset_name,
    parse,
)
from rollouts.tasks.rules.task import (
    EpisodeFailed,
    Example,
    InvalidTask,
    Mode,
    Reply,
    Task,
    Turn,
    make_task,
)
from runs.config.rules.language_config import LessonConfig

Numbers = NDArray[np.int64]
Messages = tuple[Mapping[str, str], ...]
MOST_SHOWN: Final = 300
"""Characters of a problem's description in a message."""
CALL: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
"""A call; a stop string may have cut off its end."""
MOST_RESULT: Final = 100_000
"""Characters of a tool's result; the rest is cut off."""
INSTRUCTIONS: Final = """# Tools

You may call functions. Their signatures are within <tools></tools> tags:
<tools>
{}
</tools>

For a call, write a JSON object with the name and the arguments within <tool_call></tool_call> tags:
<tool_call>
{"name": <function-name>, "arguments": <arguments>}
</tool_call>"""
"""System message with the tools; the form is that of Hermes and Qwen models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExample(Example):
    """A problem with its row."""

    row: Row


class DatasetTask:
    """Rows of a data set as problems of one turn; rewards are computed elsewhere.

    Each pass over the rows has a different random order.
    """

    most_turns = 1
    alphabet: Sequence[str] = ()

    def __init__(self, name: str, config: DatasetConfig) -> None:
        """Read the data set and check each row.

        Args:
            name: Path below the administrator's folder.
            config: Columns and splits.

        Raises:
            DatasetUnusable: If it is missing, empty or lacks a column, or a row is invalid and
                failures stop the lesson.
        """
        self.name = f"dataset:{name}"
        self.skipped: list[str] = []
        """Problems of rows that are left out, the first ones."""
        self.skipped_rows = 0
        self.system = config.system
        """System message before each prompt, with a chat template."""
        self._config = config
        path = dataset_path(name, datasets_folder())
        if config.eval_split and not has_splits(path):
            raise DatasetUnusable(f"{name}: eval_split: a single file has no splits")
        train = read_split(path, config.train_split)
        valid = self._valid(train)
        self._splits: dict[Mode, tuple[Rows, Numbers]]
        if config.eval_split:
            evaluated = read_split(path, config.eval_split)
            self._splits = {
                "train": (train, valid),
                "eval": (evaluated, self._valid(evaluated)),
            }
        else:
            if len(valid) < 2:
                raise DatasetUnusable(
                    f"{train.label}: 1 row, at least 2 needed to hold out one for evaluation"
                )
            held_out = min(max(1, round(len(valid) * config.eval_share)), len(valid) - 1)
            mixed = np.random.default_rng(config.split_seed).permutation(valid)
            self._splits = {
                "train": (train, np.sort(mixed[held_out:])),
                "eval": (train, np.sort(mixed[:held_out])),
            }
        self._order = lru_cache(maxsize=8)(_order)

    def rows(self, mode: Mode) -> int:
        return len(self._splits[mode][1])

    def problem(self, number: int, *, mode: Mode, seed: int) -> RowExample:
        rows, numbers = self._splits[mode]
        turn, place = divmod(number, len(numbers))
        at = int(numbers[self._order(seed, mode, turn, len(numbers))[place]])
        row, key, config = rows.row(at), f"{self.name}/{mode}/{at}", self._config
        value = row[config.prompt]
        answer = row[config.answer] if config.answer else ""
        if not isinstance(answer, str):
            answer = msgspec.json.encode(answer).decode()
        if _is_tokens(value):
            return RowExample(key=key, prompt="", answer=answer, tokens=tuple(value), row=row)
        # The text of the prompt, and its messages for a chat template.
        if isinstance(value, str):
            text = config.template.replace("{}", value)
            messages: Messages = ({"role": "user", "content": text},) if config.chat else ()
        else:
            messages = tuple(value)
            text = "\n".join(message["content"] for message in messages)
        if self.system:
            messages = ({"role": "system", "content": self.system}, *messages)
        return RowExample(key=key, prompt=text, answer=answer, messages=messages, row=row)

    def example(self, random: Any, *, key: str) -> Example:
        """Return a random training problem; it has its own key."""
        del key
        number = random.randrange(self.rows("train"))
        return self.problem(number, mode="train", seed=0)

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """End the conversation; its reward is computed with the whole batch."""
        del example, turns
        return Reply("", is_over=True, reward=0.0)

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        return (example.answer,)

    def _valid(self, rows: Rows) -> Numbers:
        """Return the numbers of the usable rows."""
        if not len(rows):
            raise DatasetUnusable(f"{rows.label}: contains no rows")
        valid: list[int] = []
        for number, row in rows_in(rows):
            if isinstance(row, DatasetUnusable):
                problem = str(row)
            elif problem := _problem(row, self._config):
                problem = f"{rows.place(number)}: {problem}"
            else:
                valid.append(number)
                continue
            if self._config.on_failure == "stop":
                raise DatasetUnusable(problem[:MOST_SHOWN])
            self.skipped_rows += 1
            if len(self.skipped) < 3:
                self.skipped.append(problem[:MOST_SHOWN])
        if not valid:
            raise DatasetUnusable(f"no row can be used; {self.skipped[0]}")
        return np.asarray(valid, dtype=np.int64)


def _order(seed: int, mode: Mode, turn: int, size: int) -> Numbers:
    """Return the order of the rows in a pass."""
    return np.random.default_rng(derive_seed(seed, mode, turn)).permutation(size)


def _problem(row: Row, config: DatasetConfig) -> str:
    """Return why a row cannot be used; empty if it can."""
    for column in filter(None, (config.prompt, config.answer)):
        if column not in row:
            return f"column {column!r} is missing; columns: {', '.join(row)}"
        if row[column] is None:
            return f"column {column!r} is null"
    value, where = row[config.prompt], f"column {config.prompt!r}"
    if isinstance(value, str):
        return "" if value else f"{where} is empty"
    if not isinstance(value, Sequence) or not value:
        return f"{where}: {type(value).__name__}, expected a text, messages or tokens"
    if _is_tokens(value):
        for place, token in enumerate(value):
            if type(token) is not int or token < 0:
                return f"{where}: {token!r} at {place} is not a token"
        is_plain = not config.chat and config.template == "{}"
        return "" if is_plain else f"{where}: tokens permit neither chat nor template"
    for message in value:
        if not isinstance(message, Mapping) or not all(
            isinstance(message.get(key), str) for key in ("role", "content")
        ):
            return f"{where}: each message needs the texts role and content"
    return "" if config.chat else f"{where}: messages require chat"


def _is_tokens(value: Any) -> bool:
    return not isinstance(value, str) and isinstance(value[0], int)


class ToolCall(msgspec.Struct, frozen=True):
    """A call as the policy writes it."""

    name: str
    arguments: dict[str, Any] = {}


class ToolTask(DatasetTask):
    """Conversations in which the policy calls tools before it answers.

    A turn without a call is the answer. Errors of a tool are its result.
    """

    replies_at_a_time = 16

    def __init__(
        self, name: str, config: DatasetConfig, tools: ToolsConfig, server: ToolServer
    ) -> None:
        """Read the data set; see :class:`DatasetTask`.

        Args:
            name: Path below the administrator's folder.
            config: Columns and splits.
            tools: Limits of the calls.
            server: A running server.
        """
        super().__init__(name, config)
        self.most_turns = tools.calls + 1
        self._tools, self._server = tools, server
        if config.chat:
            functions = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                }
                for tool in server.tools
            ]
            lines = [
                json.dumps({"type": "function", "function": function}, ensure_ascii=False)
                for function in functions
            ]
            described = INSTRUCTIONS.replace("{}", "\n".join(lines), 1)
            self.system = f"{config.system}\n\n{described}".lstrip()

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        """Call the tools named in the last turn, or end the conversation.

        Raises:
            EpisodeFailed: ``tool_failed`` if the server ends or does not answer in time.
        """
        calls = CALL.findall(turns[-1].text)
        if not calls or len(turns) >= self.most_turns or turns[-1].is_truncated:
            return super().reply(example, turns)
        responses = []
        for text in calls:
            try:
                call = msgspec.json.decode(text.strip(), type=ToolCall)
                result, is_error = self._server.call(
                    call.name, call.arguments, seconds=self._tools.seconds
                )
            except (msgspec.DecodeError, UnicodeEncodeError) as error:
                result, is_error = f"not a call: {error}", True
            except ToolFailed as error:
                raise EpisodeFailed("tool_failed", str(error)) from error
            shown = (f"error: {result}" if is_error else result)[:MOST_RESULT]
            responses.append(f"<tool_response>\n{shown}\n</tool_response>")
        return Reply("\n".join(responses), is_over=False, reward=0.0)


def lesson_task(lesson: LessonConfig) -> Task:
    """Return the task of a lesson; a data set is read from this machine's folder.

    Raises:
        InvalidTask: If it does not exist or does not accept the arguments.
    """
    if not lesson.spec.startswith(KIND):
        return make_task(lesson.spec, lesson.kwargs)
    try:
        return DatasetTask(dataset_name(lesson.spec), parse(lesson.kwargs))
    except DatasetUnusable as error:
        raise InvalidTask(f"{lesson.spec}: {error}") from error
