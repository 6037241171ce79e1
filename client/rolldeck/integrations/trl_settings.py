"""Settings of TRL and of a run that have to agree."""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Final

from rolldeck.trainer import MAX_HELD, TrainerRegistration

TOKEN_MODES: Final = frozenset({"token_truncate", "token_mask"})


def check_settings(grpo: Any, *, publish_every: int) -> None:
    """Check the settings of a `GRPOTrainer` that do not depend on the run.

    Raises:
        ValueError: If one does not fit; the text begins with its name.
    """
    for field, problem in _problems(grpo, publish_every):
        raise ValueError(f"{field}: {problem}")


def _problems(grpo: Any, publish_every: int) -> Iterator[tuple[str, str]]:
    args = grpo.args
    if args.use_vllm:
        yield "use_vllm", "must be False, because the run generates the answers"
    if grpo.tools or grpo.environments is not None:
        yield "tools", "must be empty, because the run's environments call the tools"
    if getattr(grpo.model, "peft_config", None) is not None:
        yield "peft_config", "must be None; all weights are published under their own names"
    if args.loss_type == "vespo" and args.vllm_importance_sampling_mode not in TOKEN_MODES:
        allowed = " or ".join(sorted(TOKEN_MODES))
        yield "vllm_importance_sampling_mode", f"must be {allowed} for the loss 'vespo'"
    microsteps = args.steps_per_generation * args.num_iterations
    batches = ceil(args.gradient_accumulation_steps / microsteps)
    if publish_every + batches > MAX_HELD:
        problem = (
            f"{publish_every} batches per version and {batches} per optimizer step exceed the "
            f"{MAX_HELD} that a trainer may hold"
        )
        yield "publish_every" if batches == 1 else "gradient_accumulation_steps", problem


def check_run(registration: TrainerRegistration, args: Any) -> None:
    """Check the settings of a `GRPOConfig` against the run.

    Raises:
        ValueError: If one does not fit; the text begins with its name.
    """
    if registration.batch_size != args.generation_batch_size:
        raise ValueError(
            f"generation_batch_size is {args.generation_batch_size}, but a batch of the run has "
            f"{registration.batch_size} sequences: per_device_train_batch_size × processes × "
            "steps_per_generation must equal the run's batch size"
        )
    check_language(registration, temperature=args.temperature)
    language: Mapping[str, Any] = registration.config.get("language") or {"lessons": {}}
    for name, lesson in language["lessons"].items():
        size = lesson["group_size"] or language["group_size"]
        if size != args.num_generations:
            raise ValueError(
                f"num_generations is {args.num_generations}, but groups of lesson {name!r} have "
                f"{size} sequences"
            )


def check_language(registration: TrainerRegistration, *, temperature: float) -> None:
    """Check the lessons of a run, if it has any.

    Raises:
        ValueError: If the run trains an adapter, or samples with another temperature.
    """
    language: Mapping[str, Any] | None = registration.config.get("language")
    if not language:
        return
    rank = language["model"]["adapter"]["rank"]
    if rank:
        raise ValueError(f"language.model.adapter.rank is {rank}; must be 0 for a trainer of TRL")
    for name, lesson in language["lessons"].items():
        sampled = lesson["sampling"]["temperature"]
        if sampled != temperature:
            raise ValueError(
                f"temperature is {temperature}, but lesson {name!r} samples with {sampled}"
            )
