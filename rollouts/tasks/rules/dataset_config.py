"""Arguments of a lesson with a data set: columns, splits, rewards and tools."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from rollouts.tasks.rules.task import InvalidTask
from runs.config.rules.run_config import FieldProblem, problems_in

KIND: Final = "dataset:"
NAME: Final = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*){0,7}")
OWN: Final = ("module:", "package:")
"""Kinds of rewards that an administrator registers."""
SECONDS: Final = 5.0
JUDGE_SECONDS: Final = 60.0
JUDGE_PROMPT: Final = (
    "Rate the answer to the question from 0 to 10.\n\nQuestion: {prompt}\n\n"
    "Reference answer: {answer}\n\nAnswer: {response}\n\nEnd with the number."
)

Column = Annotated[str, Meta(min_length=1, max_length=200)]
Split = Annotated[str, Meta(pattern=r"^([\w-][\w.-]{0,99})?$")]
Server = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]{0,63}$")]


class ExactOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``exact``."""

    extract: str = ""
    """Regular expression of the part to compare: its first group, or its whole match; the last
    match counts. Empty for the whole answer."""
    ignore_case: bool = False


class RegexOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``regex``."""

    pattern: Annotated[str, Meta(min_length=1, max_length=10_000)]
    """Searched in the answer. Text of a group named ``answer`` must equal the row's answer."""


class MathOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``math`` has no options."""


class JsonSchemaOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``json_schema``."""

    schema: dict[str, Any]


class JudgeOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``judge``."""

    server: Server
    """Name of a server of ``ROLLDECK_INFERENCE_SERVERS``."""
    prompt: Annotated[str, Meta(min_length=1, max_length=100_000)] = JUDGE_PROMPT
    """Text with ``{prompt}``, ``{answer}`` and ``{response}``."""
    highest: Annotated[float, Meta(gt=0, le=1e6)] = 10.0
    """Number that is a reward of 1."""


OPTIONS: Final[Mapping[str, type[Struct]]] = MappingProxyType(
    {
        "exact": ExactOptions,
        "regex": RegexOptions,
        "math": MathOptions,
        "json_schema": JsonSchemaOptions,
        "judge": JudgeOptions,
    }
)


class RewardConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reward function, its share of the reward, and its time limit."""

    kind: Annotated[str, Meta(max_length=200)]
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    seconds: Annotated[float, Meta(gt=0, le=600)] | None = None
    """Time limit of one answer."""
    options: dict[str, Any] = {}

    @property
    def limit_seconds(self) -> float:
        """Time limit of one answer, or the default of the kind."""
        return self.seconds or (JUDGE_SECONDS if self.kind == "judge" else SECONDS)

    @property
    def name(self) -> str:
        """Name for messages and series: the kind without its path, at most 30 characters."""
        return self.kind.rpartition(":")[2][:30]


class ToolsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that the policy may call before it answers."""

    server: Server
    """Name of a server of ``ROLLDECK_TOOL_SERVERS``."""
    calls: Annotated[int, Meta(ge=1, le=64)] = 4
    """Maximum number of turns with calls."""
    seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """Time limit of a call."""


class DatasetConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a lesson with a data set."""

    prompt: Column = "prompt"
    """Column with a text, messages of ``role`` and ``content``, or tokens."""
    answer: Annotated[str, Meta(max_length=200)] = "answer"
    """Column with the expected answer; empty for none."""
    train_split: Split = "train"
    eval_split: Split = ""
    """Split for evaluations; empty to hold out rows of the training split."""
    eval_share: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    """Share of the training split that is held out."""
    split_seed: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    """Seed of the rows held out."""
    template: Annotated[str, Meta(max_length=100_000)] = "{}"
    """Text of a prompt; ``{}`` is the column."""
    chat: bool = False
    """Whether the tokenizer's chat template renders the prompt."""
    system: Annotated[str, Meta(max_length=100_000)] = ""
    """System message before each prompt, with `chat`."""
    rewards: Annotated[list[RewardConfig], Meta(min_length=1, max_length=16)] = msgspec.field(
        default_factory=lambda: [RewardConfig(kind="exact")]
    )
    reward_processes: Annotated[int, Meta(ge=1, le=32)] = 1
    """Processes of a worker that compute rewards."""
    tools: ToolsConfig | None = None
    on_failure: Literal["drop", "stop"] = "drop"
    """Effect of a failed reward or tool server, or of an invalid row: drop the group or row, or
    stop the lesson."""


def dataset_name(spec: str) -> str:
    """Return the path of a data set below the administrator's folder.

    Raises:
        InvalidTask: If it is not a plain relative path.
    """
    name = spec.removeprefix(KIND)
    if not NAME.fullmatch(name):
        raise InvalidTask(
            f"spec: {spec} is not a path of up to 8 names below ROLLDECK_DATASETS; names have "
            "letters, digits, _, . and -, and do not begin with a dot"
        )
    return name


def parse(kwargs: Mapping[str, Any]) -> DatasetConfig:
    """Return the arguments of a lesson.

    Raises:
        InvalidTask: With the path of the first invalid argument, and the reason.
    """
    for problem in problems_in(dict(kwargs), DatasetConfig, ("kwargs",)):
        raise _refusal(problem)
    config = msgspec.convert(kwargs, DatasetConfig)
    for place, reward in enumerate(config.rewards):
        _check_reward(reward, f"kwargs.rewards[{place}]")
    if "{}" not in config.template:
        raise InvalidTask("kwargs.template: must contain {}, the place of the prompt")
    if config.system and not config.chat:
        raise InvalidTask("kwargs.system: a system message requires chat")
    return config


def options_of(reward: RewardConfig) -> Any:
    """Return the options of a built-in reward as its struct."""
    return msgspec.convert(reward.options, OPTIONS[reward.kind])


def _check_reward(reward: RewardConfig, path: str) -> None:
    if reward.kind.startswith(OWN):
        return
    if reward.kind not in OPTIONS:
        known = ", ".join([*OPTIONS, *(f"{prefix}…" for prefix in OWN)])
        raise InvalidTask(f"{path}.kind: {reward.kind!r} is unknown; choose from {known}")
    for problem in problems_in(reward.options, OPTIONS[reward.kind], (f"{path}.options",)):
        raise _refusal(problem)
    for option in ("extract", "pattern"):
        pattern = reward.options.get(option)
        if not isinstance(pattern, str):
            continue
        try:
            re.compile(pattern)
        except re.error as error:
            where = f"{path}.options.{option}"
            raise InvalidTask(f"{where}: not a regular expression: {error}") from error


def _refusal(problem: FieldProblem) -> InvalidTask:
    return InvalidTask(f"{problem.field}: {problem.message}")
