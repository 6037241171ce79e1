"""Configuration of a run: parse, check, merge and describe.

The JSON Schema of :class:`RunConfig` is the single source of the launch form, the API reference and
the validation of stored configurations. Its parts are in separate modules: `sections`,
`fleet_config`, `language_config`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from rolldeck.structs import message_and_path
from runs.config.rules import fleet_config, language_config
from runs.config.rules.config_field import NO_LANGUAGE, applicable, none_of
from runs.config.rules.config_field import described as _field
from runs.config.rules.failure_budget import FailureBudget
from runs.config.rules.fleet_config import FleetConfig, StepEvaluationConfig
from runs.config.rules.language_config import (
    EvaluationConfig,
    LanguageConfig,
    LessonConfig,
    ModelConfig,
    RequirementConfig,
    SamplingConfig,
)
from runs.config.rules.sections import (
    BufferConfig,
    EnvironmentConfig,
    PolicyConfig,
    admission_shortage,
    contradictions,
    invalid_info_keys,
)
from web.rules.errors import InvalidField

# All invalid fields of a configuration; msgspec stops at the first.

Key = str | int


class FieldProblem(NamedTuple):
    """An invalid field: the keys and positions that lead to it, and the reason."""

    keys: tuple[Key, ...]
    message: str
    inner: str = ""
    """Path inside the field's value, as msgspec writes it."""

    @property
    def field(self) -> str:
        """Dotted path, with positions in brackets."""
        path = ""
        for key in self.keys:
            path += f"[{key}]" if isinstance(key, int) else f".{key}"
        return (path + self.inner).lstrip(".")


def problems_in(value: object, kind: Any, keys: tuple[Key, ...] = ()) -> list[FieldProblem]:
    """Return a problem for each invalid field of `value`, in the order of the fields.

    Args:
        value: Decoded JSON.
        kind: Type that msgspec converts it to: a struct, or a type of its fields.
        keys: Keys and positions that lead to the value.
    """
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, path = message_and_path(error)
        whole = FieldProblem(keys, message, path)
        return list(_inside(value, kind, keys)) or [whole]
    return []


def without(value: object, problems: Sequence[FieldProblem]) -> object:
    """Return a copy of `value` without its invalid fields, so that their defaults apply.

    A list with an invalid element is left out as a whole.
    """
    rest = deepcopy(value)
    for problem in problems:
        names = [*problem.keys]
        for position, key in enumerate(problem.keys):
            if isinstance(key, int):
                names = [*problem.keys[:position]]
                break
        place: Any = rest
        for name in names[:-1]:
            place = place.get(name, {})
        if names:
            place.pop(names[-1], None)
    return rest


def _inside(value: object, kind: Any, keys: tuple[Key, ...]) -> Iterator[FieldProblem]:
    """Return the problems of the parts of a struct, a mapping or a list; none of other values."""
    kind = _bare(kind)
    arguments = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        if isinstance(value, dict):
            yield from _of_struct(value, kind, keys)
    elif get_origin(kind) is dict and isinstance(value, dict) and _is_struct(arguments[1]):
        for key, item in value.items():
            yield from problems_in(key, arguments[0], (*keys, key))
            yield from problems_in(item, arguments[1], (*keys, key))
    elif get_origin(kind) is list and isinstance(value, list) and _is_struct(arguments[0]):
        for position, item in enumerate(value):
            yield from problems_in(item, arguments[0], (*keys, position))


def _of_struct(
    value: dict[str, object], kind: type[Struct], keys: tuple[Key, ...]
) -> Iterator[FieldProblem]:
    types = get_type_hints(kind, include_extras=True)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, field in fields.items():
        if name in value:
            yield from problems_in(value[name], types[field.name], (*keys, name))
        elif field.required:
            yield FieldProblem((*keys, name), "required")
    for name in value:
        if name not in fields:
            yield FieldProblem((*keys, name), "unknown field")


def _bare(kind: Any) -> Any:
    """Return a type without metadata and without null."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    rest = [one for one in get_args(kind) if one is not type(None)]
    return _bare(rest[0]) if type(None) in get_args(kind) and len(rest) == 1 else kind


def _is_struct(kind: Any) -> bool:
    bare = _bare(kind)
    return isinstance(bare, type) and issubclass(bare, Struct)


# Configuration of a run: schema, validation and presets.


class InvalidRunConfig(InvalidField):
    """A field of the configuration is invalid; the message names it."""

    title = "Invalid configuration"
    inside = "config"
    others: "Sequence[InvalidRunConfig]" = ()


class RunConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a fleet or language run; immutable once the run is created."""

    environment: Annotated[EnvironmentConfig, applicable(NO_LANGUAGE)] = EnvironmentConfig()
    fleet: FleetConfig = FleetConfig()
    policy: Annotated[PolicyConfig, applicable(NO_LANGUAGE)] = PolicyConfig()
    buffer: BufferConfig = BufferConfig()
    evaluation: Annotated[StepEvaluationConfig, applicable(NO_LANGUAGE)] = StepEvaluationConfig()
    language: Annotated[
        LanguageConfig | None,
        _field("Language", "Turns the run into a language run: lessons replace the environment."),
    ] = None
    failure_budget: Annotated[FailureBudget, applicable(none_of("language", None))] = (
        FailureBudget()
    )
    num_steps: Annotated[
        int,
        _field(
            "Train steps", "Train steps the run is planned for.", essential=True, ge=1, le=1 << 31
        ),
    ] = 1000
    ends_at_num_steps: Annotated[
        bool,
        _field("End at train steps", "Drain and complete the run after the planned train steps."),
    ] = True
    seed: Annotated[
        int, _field("Seed", "Base of all random seeds.", essential=True, ge=0, le=(1 << 31) - 1)
    ] = 0


def _shopping(*, goods: int, highest: int = 9, after: str = "") -> LessonConfig:
    """Return a lesson of prices to compute with a tool; more and larger numbers are harder."""
    return LessonConfig(
        spec="task:shopping",
        kwargs={"goods": goods, "highest": highest},
        requires=[RequirementConfig(lesson=after, min_success=0.5)] if after else [],
        sampling=SamplingConfig(max_tokens=24),
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
        RunConfig(
            fleet=FleetConfig(num_workers=1),
            language=LanguageConfig(
                lessons={
                    "one-good": _shopping(goods=1),
                    "two-goods": _shopping(goods=2, after="one-good"),
                    "three-goods": _shopping(goods=3, after="two-goods"),
                    "larger-prices": _shopping(goods=1, highest=99),
                },
                model=ModelConfig(
                    hidden_size=64,
                    num_hidden_layers=2,
                    intermediate_size=128,
                    max_position_embeddings=96,
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
            contradict each other; `field` is its dotted path, `others` are the further errors.
    """
    config, errors = examined(raw)
    if config is None or errors:
        raise combined(errors)
    return config


def examined(raw: object) -> tuple[RunConfig | None, list[InvalidRunConfig]]:
    """Return the configuration, and an error for each invalid field.

    Invalid fields have their defaults in the returned configuration. It is None if one of them has
    no default. Contradictions are found only between fields that are valid.
    """
    problems = problems_in(raw, RunConfig)
    if problems:
        errors = [InvalidRunConfig(each.field, each.message) for each in problems]
        try:
            return msgspec.convert(without(raw, problems), RunConfig), errors
        except msgspec.ValidationError:
            return None, errors
    config = msgspec.convert(raw, RunConfig)
    return config, [InvalidRunConfig(*each) for each in _contradictions(config)]


def combined(errors: Sequence[InvalidRunConfig]) -> InvalidRunConfig:
    """Return the first error, with the rest as its `others`."""
    first, *others = errors
    first.others = others
    return first


def errors_of(*checks: Callable[[], object]) -> list[InvalidRunConfig]:
    """Run every check, and return an error for each invalid field that they found."""
    errors: list[InvalidRunConfig] = []
    for check in checks:
        try:
            check()
        except InvalidRunConfig as error:
            errors += [error, *error.others]
    return errors


def _contradictions(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Return each field that contradicts others, and the reason."""
    for field, reason in fleet_config.contradictions(config.fleet):
        yield f"fleet.{field}", reason
    for position, reason in invalid_info_keys(config.environment.info):
        yield f"environment.info[{position}]", reason
    if config.policy.precision == "float16" and config.fleet.policy_device == "cpu":
        yield (
            "policy.precision",
            "float16 needs a GPU: set fleet.num_gpus_per_worker above 0, or use bfloat16",
        )
    batch_size = config.buffer.batch_size
    found = [*contradictions(config.buffer.replay, batch_size=batch_size)]
    yield from ((f"buffer.replay.{field}", reason) for field, reason in found)
    if config.language is None:
        if not found:
            shortage = admission_shortage(
                slots=config.fleet.slots,
                length=config.buffer.replay.fragments_per_chunk,
                batch_size=batch_size,
                max_staleness=config.buffer.max_staleness,
                off_policy_tolerance=config.buffer.off_policy_tolerance,
            )
            if shortage is not None:
                yield "buffer.replay.fragments_per_chunk", shortage
        return
    if config.environment.info:
        yield "environment.info", "a language run steps no environment; leave this empty"
    if config.evaluation.every_train_steps:
        yield (
            "evaluation.every_train_steps",
            "a language run is evaluated by language.evaluation; set this to 0",
        )
    wrong = language_config.contradiction(config.language, batch_size=batch_size)
    if wrong is not None:
        yield wrong


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
