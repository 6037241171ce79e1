"""Configuration of a run: schema, validation and presets.

The JSON Schema of :class:`RunConfig` is the single source of the launch form, the API reference and
the validation of stored configurations. Its parts are in separate modules: `environment_config`,
`fleet_config`, `policy_config`, `buffer_config`, `step_evaluation_config`, `language_config`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct

from runs.config.rules import fleet_config, language_config
from runs.config.rules.buffer_config import BufferConfig
from runs.config.rules.config_field import described as _field
from runs.config.rules.environment_config import EnvironmentConfig
from runs.config.rules.fleet_config import FleetConfig
from runs.config.rules.language_config import (
    EvaluationConfig,
    LanguageConfig,
    LessonConfig,
    LessonName,
    ModelConfig,
    RequirementConfig,
    SamplingConfig,
)
from runs.config.rules.policy_config import PolicyConfig
from runs.config.rules.replay_config import admission_shortage, contradiction
from runs.config.rules.step_evaluation_config import StepEvaluationConfig
from web.rules.errors import InvalidField


class InvalidRunConfig(InvalidField):
    """A field of the configuration is invalid; the message names it."""

    title = "Invalid configuration"
    inside = "config"


class RunConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a fleet or language run; immutable once the run is created."""

    environment: EnvironmentConfig = EnvironmentConfig()
    fleet: FleetConfig = FleetConfig()
    policy: PolicyConfig = PolicyConfig()
    buffer: BufferConfig = BufferConfig()
    evaluation: StepEvaluationConfig = StepEvaluationConfig()
    language: Annotated[
        LanguageConfig | None,
        _field("Language", "Turns the run into a language run: lessons replace the environment."),
    ] = None
    num_steps: Annotated[
        int, _field("Train steps", "Train steps the run is planned for.", ge=1, le=1 << 31)
    ] = 1000
    ends_at_num_steps: Annotated[
        bool,
        _field("End at train steps", "Drain and complete the run after the planned train steps."),
    ] = True
    seed: Annotated[int, _field("Seed", "Base of all random seeds.", ge=0, le=(1 << 31) - 1)] = 0


def _reverse(letters: int, *, after: str = "") -> LessonConfig:
    """Return a lesson of reversing three letters; more letters to choose from are harder."""
    return LessonConfig(
        spec="task:reverse",
        kwargs={"length": 3, "letters": letters},
        requires=[RequirementConfig(lesson=after, min_success=0.5)] if after else [],
        sampling=SamplingConfig(max_tokens=8),
    )


PRESETS: Final[dict[str, tuple[str, RunConfig]]] = {
    "cartpole": (
        "CartPole-v1 with PPO: learns within minutes on two cores",
        # 2 × 8 slots give each train step one fragment of every slot: 2,048 env steps. In
        # simulations with these values, data one version old throughout and the example's PPO
        # settings, the mean return reaches 450 after 37,000 to 49,000 env steps, for every seed.
        RunConfig(
            fleet=FleetConfig(num_workers=2, envs_per_worker=8, fragment_length=128),
            buffer=BufferConfig(batch_size=16, max_staleness=1, off_policy_tolerance=3.0),
        ),
    ),
    "pendulum": (
        "Pendulum-v1 with PPO: continuous actions, learns within minutes on two cores",
        # A fragment is half an episode, a train step one of every slot: 1,600 env steps.
        RunConfig(
            environment=EnvironmentConfig(spec="gymnasium:Pendulum-v1"),
            fleet=FleetConfig(num_workers=2, envs_per_worker=8, fragment_length=100),
            buffer=BufferConfig(batch_size=16, max_staleness=1, off_policy_tolerance=3.0),
        ),
    ),
    "recall": (
        "A memory task with PPO and a recurrent policy: recall a cue shown earlier",
        # An episode is ten steps; without a memory the mean return is 0.25.
        RunConfig(
            environment=EnvironmentConfig(
                spec="rolldeck:recall-v0", kwargs={"cues": 4, "delay": 8}
            ),
            fleet=FleetConfig(num_workers=2, envs_per_worker=8, fragment_length=32),
            policy=PolicyConfig(kind="gru", hidden_sizes=[32], recurrent_units=32),
            buffer=BufferConfig(batch_size=16, max_staleness=1, off_policy_tolerance=3.0),
        ),
    ),
    "curriculum": (
        "Four lessons in text with GRPO: unlock and graduate within minutes on two cores",
        # A train step is 16 groups. In one process, with the example's settings and on-policy data,
        # three lessons graduate after 75 to 100 train steps and about 20 seconds of CPU. Lessons
        # differ in letters, not in length: a small model that learns to end later forgets how to
        # end earlier.
        RunConfig(
            fleet=FleetConfig(num_workers=1),
            language=LanguageConfig(
                lessons={
                    "reverse-4-letters": _reverse(4),
                    "reverse-8-letters": _reverse(8, after="reverse-4-letters"),
                    "reverse-12-letters": _reverse(12, after="reverse-8-letters"),
                    "sort-2-digits": LessonConfig(
                        spec="task:sort",
                        kwargs={"length": 2},
                        sampling=SamplingConfig(max_tokens=8),
                    ),
                },
                model=ModelConfig(
                    hidden_size=96,
                    num_hidden_layers=2,
                    intermediate_size=192,
                    max_position_embeddings=32,
                ),
                # Without rehearsal one run of two lost a graduated lesson: it forgot the letters of
                # `reverse` while learning `sort`.
                strategy_options={"rehearsal": 0.2},
                evaluation=EvaluationConfig(every_train_steps=25),
            ),
            buffer=BufferConfig(batch_size=128, max_staleness=2, off_policy_tolerance=2.0),
        ),
    ),
}


def parse(raw: object) -> RunConfig:
    """Parse decoded JSON into a configuration, with defaults filled in.

    Raises:
        InvalidRunConfig: If a field is unknown, of the wrong type or out of range, or if two fields
            contradict each other; `field` is its dotted path.
    """
    try:
        config = msgspec.convert(raw, RunConfig)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        place = _named(path.strip("`").removeprefix("$").lstrip("."), raw)
        unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message)
        if unknown:
            place = ".".join(part for part in (place, unknown[1]) if part)
            message = "unknown field"
        raise InvalidRunConfig(place, message) from error
    wrong = fleet_config.contradiction(config.fleet)
    if wrong is not None:
        raise InvalidRunConfig(f"fleet.{wrong[0]}", wrong[1])
    if config.policy.precision == "float16" and config.fleet.policy_device == "cpu":
        raise InvalidRunConfig(
            "policy.precision",
            "float16 needs a GPU: set fleet.num_gpus_per_worker above 0, or use bfloat16",
        )
    wrong = contradiction(config.buffer.replay, batch_size=config.buffer.batch_size)
    if wrong is not None:
        raise InvalidRunConfig(f"buffer.replay.{wrong[0]}", wrong[1])
    if config.language is not None:
        _check_language(config, config.language)
    else:
        _check_admission(config)
    return config


def _check_admission(config: RunConfig) -> None:
    shortage = admission_shortage(
        slots=config.fleet.slots,
        length=config.buffer.replay.fragments_per_chunk,
        batch_size=config.buffer.batch_size,
        max_staleness=config.buffer.max_staleness,
        off_policy_tolerance=config.buffer.off_policy_tolerance,
    )
    if shortage is not None:
        raise InvalidRunConfig("buffer.replay.fragments_per_chunk", shortage)


def _check_language(config: RunConfig, language: LanguageConfig) -> None:
    if config.evaluation.every_train_steps:
        raise InvalidRunConfig(
            "evaluation.every_train_steps",
            "a language run is evaluated by language.evaluation; set this to 0",
        )
    wrong = language_config.contradiction(language, batch_size=config.buffer.batch_size)
    if wrong is not None:
        raise InvalidRunConfig(*wrong)


def _named(place: str, raw: Any) -> str:
    """Return the path of an error with the name of its lesson, which msgspec omits."""
    prefix = "language.lessons[...]"
    if not place.startswith(prefix):
        return place
    for name, lesson in raw["language"]["lessons"].items():
        try:
            msgspec.convert({name: lesson}, dict[LessonName, LessonConfig])
        except msgspec.ValidationError:
            return f"language.lessons.{name}{place.removeprefix(prefix)}"
    return place


def merged(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the values of `top`; objects in both are merged field by field."""
    result = dict(base)
    for key, value in top.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def to_builtins(config: RunConfig) -> dict[str, Any]:
    """Return `config` as plain JSON values, with all defaults."""
    return msgspec.to_builtins(config)  # type: ignore[no-any-return]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a run configuration."""
    return msgspec.json.schema(RunConfig)
