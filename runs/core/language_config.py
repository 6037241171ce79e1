"""Describe a language run: its model, its lessons, and how they are sampled and evaluated.

A lesson is a token environment with sampling parameters; which lesson comes next is decided by
the curriculum's strategy. Groups of answers to one prompt are what such a run produces.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from runs.core.config_field import described as _field

LessonName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]{0,63}$")]


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shapes of the transformer that workers build, or where its checkpoint is."""

    checkpoint: Annotated[
        str,
        _field(
            "Checkpoint",
            "Folder below the administrator's checkpoints, in Hugging Face's layout; "
            "empty to build a model of the shapes below.",
            pattern=r"^([A-Za-z0-9][\w.-]{0,63}(/[A-Za-z0-9][\w.-]{0,63}){0,3})?$",
        ),
    ] = ""
    hidden_size: Annotated[int, _field("Hidden size", "Width of the model.", ge=8, le=65_536)] = 128
    num_hidden_layers: Annotated[int, _field("Layers", "Blocks.", ge=1, le=512)] = 4
    num_attention_heads: Annotated[int, _field("Heads", "Query heads.", ge=1, le=512)] = 4
    num_key_value_heads: Annotated[
        int, _field("Key-value heads", "Heads of keys and values; divides the heads.", ge=1, le=512)
    ] = 4
    intermediate_size: Annotated[
        int, _field("Intermediate size", "Width inside a block's MLP.", ge=8, le=1 << 20)
    ] = 384
    max_position_embeddings: Annotated[
        int, _field("Context", "Tokens of prompt and answer.", unit="tokens", ge=8, le=1 << 20)
    ] = 128
    tokenizer: Annotated[
        Literal["alphabet", "bytes", "checkpoint"],
        _field(
            "Tokenizer",
            "alphabet: one token a character of the lessons' tasks; bytes; or the checkpoint's.",
        ),
    ] = "alphabet"


class SamplingConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an answer is drawn."""

    temperature: Annotated[float, _field("Temperature", "0 is greedy.", ge=0, le=10)] = 1.0
    top_p: Annotated[float, _field("Top-p", "1 for all tokens.", gt=0, le=1)] = 1.0
    top_k: Annotated[int, _field("Top-k", "0 for all tokens.", ge=0, le=1 << 20)] = 0
    max_tokens: Annotated[
        int, _field("Longest turn", "Tokens of one answer.", unit="tokens", ge=1, le=1 << 20)
    ] = 32


class RequirementConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lesson that must come first."""

    lesson: Annotated[LessonName, _field("Lesson", "Name of the lesson that comes first.")]
    min_success: Annotated[
        float, _field("Success", "Rate that it must reach at least.", ge=0, le=1)
    ] = 0.0


class LessonConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson: an environment, how answers are drawn, and when it counts as learnt."""

    spec: Annotated[
        str,
        _field(
            "Environment",
            "A token environment: task:reverse, task:sort, task:addition, task:calculator, "
            "verifiers:<id>, or one that an administrator registered.",
            pattern=r"^[a-z_]+:[\w./:-]{1,120}$",
        ),
    ]
    kwargs: Annotated[dict[str, Any], _field("Arguments", "Of the environment.")] = {}
    requires: Annotated[
        list[RequirementConfig], _field("Requires", "Lessons that come first.", max_length=64)
    ] = []
    sampling: SamplingConfig = SamplingConfig()
    stop_success: Annotated[
        float, _field("Learnt at", "Success rate that graduates it.", gt=0, le=1)
    ] = 0.9
    plateau_window: Annotated[
        int, _field("Plateau window", "Samples a plateau is looked for in.", ge=2, le=100_000)
    ] = 256
    plateau_threshold: Annotated[
        float, _field("Plateau threshold", "Success gained that still counts as flat.", ge=0, le=1)
    ] = 0.01
    success_above: Annotated[
        float | None,
        _field(
            "Success above",
            "Reward above which an episode counts as a success; empty for the environment's own "
            "judgement.",
        ),
    ] = None


class EvaluationConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When lessons are evaluated, and with how much."""

    every_train_steps: Annotated[
        int, _field("Every", "Full evaluation after so many train steps.", unit="steps", ge=1)
    ] = 20
    examples: Annotated[
        int, _field("Examples", "Problems of each lesson, always the same ones.", ge=1, le=100_000)
    ] = 256
    generations: Annotated[
        int, _field("Answers each", "Answers to each problem: the k of pass@k.", ge=1, le=1024)
    ] = 1
    temperature: Annotated[float, _field("Temperature", "0 is greedy.", ge=0, le=10)] = 0.0
    micro_every_batches: Annotated[
        int,
        _field(
            "Micro-evaluation every",
            "Batches of rollouts of a worker between micro-evaluations of the lesson at hand, "
            "which are logged only; 0 for none.",
            ge=0,
        ),
    ] = 0
    micro_examples: Annotated[
        int, _field("Micro-evaluation examples", "Problems of one.", ge=1, le=10_000)
    ] = 32
    lease_seconds: Annotated[
        float,
        _field(
            "Lease",
            "After this long a lost evaluation is given to another worker.",
            unit="s",
            ge=5,
            le=86_400,
        ),
    ] = 120.0


class LanguageConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes a run a language run."""

    lessons: Annotated[dict[LessonName, LessonConfig], _field("Lessons", "By name.")]
    lesson_order: Annotated[
        list[LessonName],
        _field(
            "Order of lessons",
            "As they are listed where they do not require each other; a lesson that is not named "
            "follows as written, and a name without a lesson is left out.",
            max_length=4096,
        ),
    ] = []
    model: ModelConfig = ModelConfig()
    inference: Annotated[
        str,
        _field(
            "Inference server",
            "Name of a server that an administrator offers; empty: each worker generates itself.",
            pattern=r"^([A-Za-z0-9][\w.-]{0,63})?$",
        ),
    ] = ""
    strategy: Annotated[
        str,
        _field(
            "Curriculum",
            "rolldeck, marin, or the module:Class of one that an administrator registered.",
            pattern=r"^[\w.]{1,100}(:\w{1,60})?$",
        ),
    ] = "rolldeck"
    strategy_options: Annotated[
        dict[str, float | bool | int], _field("Curriculum's options", "Of the strategy.")
    ] = {}
    group_size: Annotated[int, _field("Group size", "Answers to one prompt.", ge=1, le=1024)] = 8
    prompts_per_batch: Annotated[
        int, _field("Prompts at a time", "Prompts a worker answers at a time.", ge=1, le=4096)
    ] = 8
    keeps_zero_variance: Annotated[
        bool,
        _field(
            "Keep groups without variance",
            "Send groups whose answers all got the same reward: nothing is learnt from them.",
        ),
    ] = False
    evaluation: EvaluationConfig = EvaluationConfig()

    def __post_init__(self) -> None:
        """Write down the order of the lessons: databases do not keep that of an object's fields."""
        named = [name for name in self.lesson_order if name in self.lessons]
        force_setattr(self, "lesson_order", list(dict.fromkeys([*named, *self.lessons])))
