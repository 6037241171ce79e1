"""Language settings of a run: model, lessons, sampling and evaluation.

A lesson is a token environment with sampling parameters. The curriculum strategy selects the next
lesson. A language run produces groups of answers to one prompt.
"""

from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from runs.config.rules.config_field import described as _field
from runs.config.rules.config_field import none_of, one_of

_BUILT: Final = (one_of("language.model.checkpoint", ""),)
"""The workers build the model, instead of loading a checkpoint."""
_ADAPTER: Final = (none_of("language.model.adapter.rank", 0),)
_SHRINK: Final = (one_of("language.short_groups", "shrink"),)
_REFILL: Final = (one_of("language.short_groups", "refill"),)
_MICRO: Final = (none_of("language.evaluation.micro_every_batches", 0),)

_SHORT: Final = "What becomes of a group of which rollouts fail or get no score. "

ShortGroups = Literal["drop", "shrink", "refill"]
LessonName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][\w.-]{0,63}$")]


class AdapterConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """LoRA adapter that the trainer publishes instead of all weights."""

    rank: Annotated[
        int,
        _field(
            "Rank",
            "Rank of the LoRA adapters that the trainer publishes, loaded by the inference server "
            "on top of its checkpoint; 0: the trainer publishes all weights.",
            ge=0,
            le=1024,
        ),
    ] = 0
    alpha: Annotated[
        float,
        _field("Alpha", "The adapter is scaled by alpha / rank.", when=_ADAPTER, gt=0, le=65_536),
    ] = 16.0
    target_modules: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^\w{1,64}$")], ...],
        _field(
            "Target modules",
            "Last parts of the names of the adapted layers, as in PEFT.",
            when=_ADAPTER,
            min_length=1,
            max_length=64,
        ),
    ] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Architecture of the transformer that workers build, or the path of its checkpoint."""

    checkpoint: Annotated[
        str,
        _field(
            "Checkpoint",
            "Folder below the administrator's checkpoint folder, in Hugging Face's layout; "
            "empty to build a model with the dimensions below.",
            essential=True,
            pattern=r"^([A-Za-z0-9][\w.-]{0,63}(/[A-Za-z0-9][\w.-]{0,63}){0,3})?$",
        ),
    ] = ""
    hidden_size: Annotated[
        int, _field("Hidden size", "Width of the model.", when=_BUILT, ge=8, le=65_536)
    ] = 128
    num_hidden_layers: Annotated[
        int, _field("Layers", "Number of transformer blocks.", when=_BUILT, ge=1, le=512)
    ] = 4
    num_attention_heads: Annotated[
        int, _field("Heads", "Query heads.", when=_BUILT, ge=1, le=512)
    ] = 4
    num_key_value_heads: Annotated[
        int,
        _field(
            "Key-value heads",
            "Heads of keys and values; divides the heads.",
            when=_BUILT,
            ge=1,
            le=512,
        ),
    ] = 4
    intermediate_size: Annotated[
        int,
        _field("Intermediate size", "Width inside a block's MLP.", when=_BUILT, ge=8, le=1 << 20),
    ] = 384
    max_position_embeddings: Annotated[
        int,
        _field(
            "Context",
            "Maximum tokens of prompt and answer together.",
            unit="tokens",
            ge=8,
            le=1 << 20,
        ),
    ] = 128
    tokenizer: Annotated[
        Literal["alphabet", "bytes", "checkpoint"],
        _field(
            "Tokenizer",
            "alphabet: one token per character or word of the lessons' tasks; bytes; or the "
            "checkpoint's.",
        ),
    ] = "alphabet"
    adapter: AdapterConfig = AdapterConfig()


class SamplingConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sampling parameters of answers."""

    temperature: Annotated[float, _field("Temperature", "0 is greedy.", ge=0, le=10)] = 1.0
    top_p: Annotated[float, _field("Top-p", "1 for all tokens.", gt=0, le=1)] = 1.0
    top_k: Annotated[int, _field("Top-k", "0 for all tokens.", ge=0, le=1 << 20)] = 0
    max_tokens: Annotated[
        int,
        _field(
            "Longest turn",
            "Maximum tokens of one answer.",
            unit="tokens",
            essential=True,
            ge=1,
            le=1 << 20,
        ),
    ] = 32
    stop: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=64)]],
        _field(
            "Stop strings",
            "Texts that end an answer, at most 16 of 1 to 64 characters. The tokens of the text "
            "belong to the answer and are trained on.",
            max_length=16,
        ),
    ] = []
    stop_token_ids: Annotated[
        list[Annotated[int, Meta(ge=0, lt=1 << 31)]],
        _field(
            "Stop tokens",
            "Ids of tokens that end an answer, at most 64, besides the tokenizer's end token. The "
            "token belongs to the answer and is trained on.",
            max_length=64,
        ),
    ] = []
    include_stop_str_in_output: Annotated[
        bool,
        _field(
            "Score the stop",
            "Whether the text that the environment scores contains the stop string or stop token.",
        ),
    ] = False


class RequirementConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lesson that must succeed first."""

    lesson: Annotated[LessonName, _field("Lesson", "Name of the required lesson.")]
    min_success: Annotated[
        float, _field("Success", "Minimum success rate of that lesson.", ge=0, le=1)
    ] = 0.0


class LessonConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson: an environment, its sampling parameters, and its graduation criteria."""

    spec: Annotated[
        str,
        _field(
            "Environment",
            "A token environment: task:reverse, task:sort, task:addition, task:shopping, "
            "dataset:<path>, verifiers:<name>, openenv:<name>, or one that an administrator "
            "registered.",
            essential=True,
            pattern=r"^[a-z_]+:[\w./:-]{1,120}$",
        ),
    ]
    kwargs: Annotated[
        dict[str, Any], _field("Arguments", "Arguments of the environment.", essential=True)
    ] = {}
    requires: Annotated[
        list[RequirementConfig],
        _field("Requires", "Lessons required before this one.", essential=True, max_length=64),
    ] = []
    sampling: SamplingConfig = SamplingConfig()
    prompts_per_batch: Annotated[
        Annotated[int, Meta(ge=1, le=4096)] | None,
        _field(
            "Prompts at a time",
            "Prompts of this lesson that a worker answers concurrently; empty for the run's.",
        ),
    ] = None
    group_size: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        _field("Group size", "Answers to one prompt of this lesson; empty for the run's."),
    ] = None
    short_groups: Annotated[
        ShortGroups | None,
        _field("Short groups", f"{_SHORT}Empty for the run's."),
    ] = None
    least_group_size: Annotated[
        Annotated[int, Meta(ge=1, le=1024)] | None,
        _field("Smallest group", "Smallest group that is kept; empty for the run's."),
    ] = None
    most_refills: Annotated[
        Annotated[int, Meta(ge=1, le=16)] | None,
        _field("Refills", "Maximum attempts to refill a group; empty for the run's."),
    ] = None
    stop_success: Annotated[
        float,
        _field(
            "Learnt at", "Success rate at which the lesson graduates.", essential=True, gt=0, le=1
        ),
    ] = 0.9
    plateau_window: Annotated[
        int, _field("Plateau window", "Samples in which a plateau is detected.", ge=2, le=100_000)
    ] = 256
    plateau_threshold: Annotated[
        float,
        _field("Plateau threshold", "Largest gain in success that counts as flat.", ge=0, le=1),
    ] = 0.01
    success_above: Annotated[
        float | None,
        _field(
            "Success above",
            "Reward above which an episode counts as a success; empty to use the environment's "
            "own criterion.",
        ),
    ] = None


class EvaluationConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Schedule and size of evaluations."""

    every_train_steps: Annotated[
        int, _field("Every", "Train steps between full evaluations.", unit="steps", ge=1)
    ] = 20
    examples: Annotated[
        int, _field("Examples", "Fixed number of problems per lesson.", ge=1, le=100_000)
    ] = 256
    generations: Annotated[
        int, _field("Answers each", "Answers per problem: the k of pass@k.", ge=1, le=1024)
    ] = 1
    temperature: Annotated[float, _field("Temperature", "0 is greedy.", ge=0, le=10)] = 0.0
    micro_every_batches: Annotated[
        int,
        _field(
            "Micro-evaluation every",
            "Rollout batches of a worker between micro-evaluations of its current lesson, "
            "which do not affect the curriculum; 0 for none.",
            ge=0,
        ),
    ] = 16
    micro_examples: Annotated[
        int,
        _field(
            "Micro-evaluation examples",
            "Problems per micro-evaluation.",
            when=_MICRO,
            ge=1,
            le=10_000,
        ),
    ] = 16
    evaluates_locked: Annotated[
        bool,
        _field(
            "Evaluate locked lessons",
            "Evaluate locked lessons in each round too, before the policy has trained on them.",
        ),
    ] = False
    graduated_every_rounds: Annotated[
        int,
        _field(
            "Graduated lessons every",
            "A graduated lesson is evaluated in one of this many rounds; 1: in each.",
            unit="rounds",
            ge=1,
            le=1000,
        ),
    ] = 4
    lease_seconds: Annotated[
        float,
        _field(
            "Lease",
            "Time after which a lost evaluation is assigned to another worker.",
            unit="s",
            ge=5,
            le=86_400,
        ),
    ] = 120.0


class ShortGroupRule(NamedTuple):
    """Rule for the groups of a lesson of which rollouts fail or get no score."""

    policy: ShortGroups
    least: int
    """Smallest group that `shrink` keeps."""
    refills: int
    """Maximum number of attempts to refill a group."""


class LanguageConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a language run."""

    lessons: Annotated[
        dict[LessonName, LessonConfig],
        _field("Lessons", "Lessons by name.", essential=True, order="language.lesson_order"),
    ]
    lesson_order: Annotated[
        list[LessonName],
        _field(
            "Order of lessons",
            "Order of lessons that do not require each other. Lessons not named follow in the "
            "order written; names without a lesson are ignored.",
            max_length=4096,
        ),
    ] = []
    model: ModelConfig = ModelConfig()
    inference: Annotated[
        str,
        _field(
            "Inference server",
            "Name of a server configured by an administrator; empty: each worker generates itself.",
            essential=True,
            pattern=r"^([A-Za-z0-9][\w.-]{0,63})?$",
        ),
    ] = ""
    strategy: Annotated[
        str,
        _field(
            "Curriculum",
            "rolldeck, marin, or the module:Class of a strategy registered by an administrator.",
            pattern=r"^[\w.]{1,100}(:\w{1,60})?$",
        ),
    ] = "rolldeck"
    strategy_options: Annotated[
        dict[str, float | bool | int], _field("Curriculum options", "Options of the strategy.")
    ] = {}
    group_size: Annotated[
        int, _field("Group size", "Answers to one prompt.", essential=True, ge=1, le=1024)
    ] = 8
    short_groups: Annotated[
        ShortGroups,
        _field(
            "Short groups",
            f"{_SHORT}drop: the whole group; shrink: train on its other rollouts; refill: sample "
            "only the failed ones again.",
        ),
    ] = "drop"
    least_group_size: Annotated[
        int,
        _field(
            "Smallest group",
            "Rollouts that a shrunken group must have; otherwise it is dropped.",
            when=_SHRINK,
            ge=1,
            le=1024,
        ),
    ] = 2
    most_refills: Annotated[
        int,
        _field(
            "Refills",
            "Maximum attempts to refill a group; afterwards it is dropped.",
            when=_REFILL,
            ge=1,
            le=16,
        ),
    ] = 2
    prompts_per_batch: Annotated[
        int, _field("Prompts at a time", "Prompts a worker answers concurrently.", ge=1, le=4096)
    ] = 8
    max_rollouts: Annotated[
        int,
        _field(
            "Maximum rollouts",
            "Training answers after which workers generate no more, in whole groups; the run then "
            "drains and completes. 0 for no limit.",
            ge=0,
            le=1 << 40,
        ),
    ] = 0
    keeps_zero_variance: Annotated[
        bool,
        _field(
            "Keep groups without variance",
            "Send groups whose answers all have the same reward, which carry no learning signal.",
        ),
    ] = False
    evaluation: EvaluationConfig = EvaluationConfig()

    def __post_init__(self) -> None:
        """Record the order of the lessons: databases do not preserve the order of object fields."""
        named = [name for name in self.lesson_order if name in self.lessons]
        force_setattr(self, "lesson_order", list(dict.fromkeys([*named, *self.lessons])))

    def group_size_of(self, lesson: str) -> int:
        """Return the number of answers to one prompt of a lesson."""
        return self.lessons[lesson].group_size or self.group_size

    def prompts_of(self, lesson: str) -> int:
        """Return the number of prompts of a lesson's training task."""
        return self.lessons[lesson].prompts_per_batch or self.prompts_per_batch

    def short_group_rule(self, lesson: str) -> ShortGroupRule:
        """Return the rule for short groups of a lesson."""
        own = self.lessons[lesson]
        return ShortGroupRule(
            policy=own.short_groups or self.short_groups,
            least=own.least_group_size or self.least_group_size,
            refills=own.most_refills or self.most_refills,
        )

    @property
    def shrinks(self) -> bool:
        """Whether groups of any lesson may be smaller than its group size."""
        return any(self.short_group_rule(name).policy == "shrink" for name in self.lessons)

    @property
    def group_sizes(self) -> list[int]:
        """Different group sizes of the lessons, ascending."""
        return sorted({self.group_size_of(name) for name in self.lessons})

    @property
    def most_sequences(self) -> int:
        """Maximum number of sequences of one training task."""
        return max(self.prompts_of(name) * self.group_size_of(name) for name in self.lessons)


def contradiction(language: LanguageConfig, *, batch_size: int) -> tuple[str, str] | None:
    """Return the path of a field that no group of a lesson can meet, and the reason.

    Each group size divides the batch size, and of two group sizes one divides the other. Any
    groups with at least `batch_size` sequences in total then contain some that sum to it exactly.

    Args:
        language: Settings of a language run.
        batch_size: Sequences per batch.
    """
    for name in language.lessons:
        size = language.group_size_of(name)
        whole, rest = divmod(batch_size, size)
        if rest:
            fitting = " or ".join(f"{n * size:,}" for n in (whole, whole + 1) if n)
            reason = (
                f"{batch_size:,} sequences are not a multiple of the group size {size} of lesson "
                f"{name!r}: no batch can be filled exactly. Use {fitting}, or another group size"
            )
            return "buffer.batch_size", reason
    for name in language.lessons:
        size, rule = language.group_size_of(name), language.short_group_rule(name)
        if rule.policy == "shrink" and rule.least > size:
            is_own = language.lessons[name].least_group_size is not None
            where = f"lessons.{name}.least_group_size" if is_own else "least_group_size"
            reason = f"{rule.least} exceeds the group size {size} of lesson {name!r}"
            return f"language.{where}", reason
    for name in language.lessons:
        size = language.group_size_of(name)
        other = next((one for one in language.group_sizes if one % size and size % one), None)
        if other is not None:
            reason = (
                f"{size} must be a multiple or a divisor of {other}, the group size of another "
                "lesson, so that whole groups fill each batch"
            )
            return f"language.lessons.{name}.group_size", reason
    return None
