"""Groups of a run for `GRPOTrainer` of TRL 1.16.

Three arguments change::

    GRPOTrainer(
        model,
        args=config,
        processing_class=tokenizer,
        rollout_func=RolloutFunction(Trainer(url, "words", token)),
        reward_funcs=score,
        train_dataset=placeholder_prompts(config),
    ).train()

The environments of the run have generated and scored the sequences, so TRL generates nothing. TRL
weights the loss by the ratio of the trained model to the sampling one, with the log probabilities
of the inference server. After the optimizer step the weights are published, then the batch is
acknowledged: an acknowledged batch is part of a published version.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, TypeVar

import torch
from accelerate.utils import DistributedType, broadcast, broadcast_object_list
from datasets import Dataset
from transformers import TrainerCallback

from rolldeck.batches import Batch
from rolldeck.client import ENDED
from rolldeck.errors import InvalidMessageError
from rolldeck.integrations.token_rows import token_rows
from rolldeck.safetensors import BITS, float32_of
from rolldeck.trainer import MAX_HELD, Trainer, TrainerRegistration, ack_or_log

# Settings of TRL and of a run that have to agree.

TOKEN_MODES: Final = frozenset({"token_truncate", "token_mask"})


def check_settings(grpo: Any, *, publish_every: int) -> None:
    """Check the settings of a `GRPOTrainer` that do not depend on the run.

    Raises:
        ValueError: If one does not fit; the text begins with its name.
    """
    args = grpo.args
    if args.use_vllm:
        raise ValueError("use_vllm: must be False, because the run generates the answers")
    if grpo.tools or grpo.environments is not None:
        raise ValueError("tools: must be empty, because the run's environments call the tools")
    if getattr(grpo.model, "peft_config", None) is not None:
        raise ValueError(
            "peft_config: must be None; all weights are published under their own names"
        )
    if args.loss_type == "vespo" and args.vllm_importance_sampling_mode not in TOKEN_MODES:
        allowed = " or ".join(sorted(TOKEN_MODES))
        raise ValueError(f"vllm_importance_sampling_mode: must be {allowed} for the loss 'vespo'")
    microsteps = args.steps_per_generation * args.num_iterations
    batches = ceil(args.gradient_accumulation_steps / microsteps)
    if publish_every + batches > MAX_HELD:
        field = "publish_every" if batches == 1 else "gradient_accumulation_steps"
        raise ValueError(
            f"{field}: {publish_every} batches per version and {batches} per optimizer step "
            f"exceed the {MAX_HELD} that a trainer may hold"
        )


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
        if (lesson.get("short_groups") or language.get("short_groups")) == "shrink":
            raise ValueError(
                f"num_generations is {args.num_generations}, but lesson {name!r} shrinks groups "
                "(short_groups): use refill or drop"
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


# Groups of a run for `GRPOTrainer` of TRL 1.16.

__all__ = ["RolloutFunction", "RunEndedError", "placeholder_prompts", "score"]

logger = logging.getLogger("rolldeck")

REPLICATED: Final = frozenset(
    {DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU}
)
"""Ways of training in which each process has all weights."""
DRAIN_SECONDS: Final = 1.0
"""Interval between checks of a draining run."""
T = TypeVar("T")


class RunEndedError(RuntimeError):
    """The run ended while TRL waited for a batch."""


def score(*, score: Sequence[float], **_: object) -> list[float]:
    """Return the scores of the environments: the reward function of `GRPOTrainer`."""
    return list(score)


def placeholder_prompts(args: Any) -> Dataset:
    """Return empty prompts for `train_dataset`: the prompts are in the batches of the run.

    An epoch of them is the shortest that consists of whole batches and whole optimizer steps.

    Args:
        args: The `GRPOConfig`; its `max_steps` limits the training.

    Raises:
        ValueError: If `max_steps` is not set.
    """
    if args.max_steps <= 0:
        raise ValueError(f"max_steps is {args.max_steps}; it must be above 0: prompts have no end")
    microsteps = args.steps_per_generation * args.num_iterations
    batches = math.lcm(microsteps, args.gradient_accumulation_steps) // microsteps
    groups = args.generation_batch_size // args.num_generations
    return Dataset.from_dict({"prompt": [""] * (batches * groups)})


@dataclass(slots=True)
class _Held:
    """A leased batch."""

    batch: Batch
    microsteps: int
    """Forward passes that TRL still makes with it."""
    is_trained: bool = False
    """Whether an optimizer step has followed the last of them."""


class RolloutFunction:
    """`rollout_func` of `GRPOTrainer`: each call leases the next batch of the run.

    With several processes the main one leases, publishes and acknowledges; the sequences of a batch
    are split as TRL splits its prompts.
    """

    def __init__(self, trainer: Trainer, *, resume: bool = False, publish_every: int = 1) -> None:
        """Configure the function without sending a request.

        Args:
            trainer: Unregistered trainer of the run. TRL's first step registers it.
            resume: Continue in the run's present epoch: load the weights that were published last,
                and get the unacknowledged batches again.
            publish_every: Batches trained on per published version, 1 to 15. They are
                acknowledged after the publication.

        Raises:
            ValueError: If `publish_every` is outside its limits.
        """
        if not 1 <= publish_every < MAX_HELD:
            raise ValueError(f"publish_every is {publish_every}; must be between 1 and 15")
        self._trainer = trainer
        self._resume = resume
        self._publish_every = publish_every
        self._step = -1
        self._held: list[_Held] = []
        self._next: Batch | None = None
        self._grpo: Any = None

    def __call__(self, prompts: Sequence[Any], grpo: Any) -> dict[str, list[Any]]:
        """Return this process' share of the next batch, in the form that TRL requires.

        Args:
            prompts: Placeholders; one for each sequence of this process.
            grpo: The `GRPOTrainer`.

        Raises:
            ValueError: If a setting of TRL does not fit the run, or a group cannot be trained on;
                the text names the field. The batch stays leased.
            RunEndedError: If the run ends before a batch is complete.
            RolldeckError: The refusal of a request.
        """
        if grpo is not self._grpo:
            self._begin(grpo)
        if not grpo.model.training:
            raise ValueError("eval_strategy: must be 'no'; batches of the run are for training")
        columns = self._on_main(self._next_columns)
        first = grpo.accelerator.process_index * len(prompts)
        return {name: rows[first : first + len(prompts)] for name, rows in columns.items()}

    def _begin(self, grpo: Any) -> None:
        """Register, put the weights of both sides in agreement, and attach to TRL."""
        check_settings(grpo, publish_every=self._publish_every)
        if grpo.accelerator.distributed_type not in REPLICATED:
            kind = grpo.accelerator.distributed_type
            raise ValueError(f"distributed_type: {kind} shards the weights; use DDP")
        self._grpo = grpo
        self._step, resumes = self._on_main(self._join)
        if resumes:
            for parameter in grpo.model.parameters():
                broadcast(parameter.data)
        else:
            self._on_main(self._publish)
        # TRL corrects the loss for the log probabilities of the sampling weights only with vLLM,
        # whose weights it would update here: https://huggingface.co/docs/trl/paper_index
        vars(grpo).update(use_vllm=True, vllm_generation=_PublishedWeights(), _last_loaded_step=-1)
        grpo.add_callback(_Acknowledgements(self))

    def _join(self) -> tuple[int, bool]:
        """Register, and load the weights of the newest version if the training resumes.

        Returns:
            The step of that version, and whether the training resumes; -1 and False otherwise.
        """
        size = self._grpo.args.generation_batch_size
        registration = self._trainer.register(resume=self._resume, batch_size=size)
        check_run(registration, self._grpo.args)
        resumes = self._resume and registration.policy_step >= 0
        if not resumes:
            return -1, False
        manifest, arrays = self._trainer.current_weights()
        for name, parameter in self._grpo.model.named_parameters():
            array = arrays.get(name)
            if array is None or array.shape != parameter.shape:
                shape = None if array is None else list(array.shape)
                raise ValueError(
                    f"model: version {manifest.step} of run {self._trainer.run} has shape {shape} "
                    f"for {name}, not {list(parameter.shape)}"
                )
            values = float32_of(array) if array.dtype == BITS["BF16"] else array
            with torch.no_grad():
                parameter.copy_(torch.tensor(values))
        return registration.policy_step, True

    def _publish(self) -> None:
        model = self._grpo.accelerator.unwrap_model(self._grpo.model)
        self._step += 1
        self._trainer.publish_weights(dict(model.named_parameters()), step=self._step)

    def _next_columns(self) -> dict[str, list[Any]]:
        """Lease the next batch; return the fields of `rollout_func`, and `score` for rewards."""
        batch = self._lease() if self._next is None else self._next
        self._next = None
        if batch is None:
            raise RunEndedError(f"run {self._trainer.run} has ended: no more batches")
        vocabulary = self._grpo.model.get_input_embeddings().num_embeddings
        args = self._grpo.args
        rows = token_rows(batch, vocabulary=vocabulary, temperature=args.temperature)
        path = f"batch {batch.head.ordinal}"
        generations = self._grpo.num_generations
        sizes = Counter(row.group for row in rows)
        for place, group in enumerate(batch.group_arrays):
            if sizes[place] != generations:
                empty = group.sequences - sizes[place]
                counts = f"{sizes[place]} sequences{' with tokens' if empty else ''}"
                raise InvalidMessageError(
                    f"groups[{place}] of {path} has {counts}, but num_generations is {generations}"
                )
        if len(rows) != args.generation_batch_size:
            raise InvalidMessageError(
                f"{path} has {len(rows)} sequences, but generation_batch_size is "
                f"{args.generation_batch_size}"
            )
        if batch.head.importance_weights:
            raise InvalidMessageError(
                f"{path}, importance_weights: must be empty, use the sampler fifo"
            )
        for row in rows:
            if row.advantage is not None:
                raise InvalidMessageError(
                    f"groups[{row.group}] of {path}, advantages: must be absent, because TRL "
                    "computes them from the scores"
                )
        self._held.append(_Held(batch, args.steps_per_generation * args.num_iterations))
        pairs = [(row, row.prompt_tokens) for row in rows]
        return {
            "prompt_ids": [row.tokens[:end].tolist() for row, end in pairs],
            "completion_ids": [row.tokens[end:].tolist() for row, end in pairs],
            "logprobs": [row.logprobs[end:].tolist() for row, end in pairs],
            "env_mask": [row.trained[end:].astype(int).tolist() for row, end in pairs],
            "score": [row.score for row in rows],
        }

    def _lease(self, wait_seconds: float = 30.0) -> Batch | None:
        """Return the next batch; None if the run has ended, which is checked after each wait."""
        while True:
            holding = [held.batch for held in self._held]
            batch = self._trainer.next_batch(wait_seconds, holding=holding)
            if batch is not None:
                return batch
            status = self._trainer.status()
            if status in ENDED:
                return None
            self._settle(1)
            logger.info("run %s is %s: still waiting for a batch", self._trainer.run, status)

    def microstep_ended(self) -> None:
        """Count a forward and backward pass with the newest batch."""
        if self._held:
            self._held[-1].microsteps -= 1

    def step_ended(self) -> bool:
        """Publish and acknowledge what TRL has trained on; return whether the run has ended."""
        self._mark_trained()
        return self._on_main(self._settle_step)

    def training_ended(self) -> None:
        """Publish and acknowledge what TRL has trained on since the last version."""
        self._mark_trained()
        self._on_main(lambda: self._settle(1))

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Store metrics of TRL as metrics of the run."""
        if self._grpo.accelerator.is_main_process:
            numbers = {name: x for name, x in metrics.items() if isinstance(x, int | float)}
            self._trainer.log_metrics(numbers, step=max(self._step, 1))

    def _mark_trained(self) -> None:
        for held in self._held:
            held.is_trained = held.microsteps <= 0

    def _settle(self, least: int) -> bool:
        """Publish and acknowledge if at least this number of batches is complete."""
        done = [held.batch for held in self._held if held.is_trained]
        if len(done) < least:
            return False
        self._publish()
        for batch in done:
            ack_or_log(self._trainer, batch)
            del self._held[0]
        return True

    def _settle_step(self) -> bool:
        # A run that ends needs the acknowledgements before `publish_every` is reached.
        is_ending = self._trainer.status() == "draining"
        if not self._settle(1 if is_ending else self._publish_every):
            return False
        status = self._trainer.status()
        if status == "draining" and not self._held:
            self._next = self._lease(DRAIN_SECONDS)
            return self._next is None
        return status in ENDED

    def _on_main(self, call: Callable[[], T]) -> T:
        """Return the result of a call of the main process in all processes.

        Raises:
            RuntimeError: In the others, if it failed in the main process.
        """
        if self._grpo.accelerator.num_processes == 1:
            return call()
        outcome: list[Any] = [None, None]
        error: Exception | None = None
        if self._grpo.accelerator.is_main_process:
            try:
                outcome[0] = call()
            except Exception as caught:  # noqa: BLE001 raised below, after the others have it
                error, outcome[1] = caught, str(caught)
        broadcast_object_list(outcome)
        if error is not None:
            raise error
        if outcome[1] is not None:
            raise RuntimeError(f"the main process failed: {outcome[1]}")
        result: T = outcome[0]
        return result


class _PublishedWeights:
    """TRL's place for the client of a vLLM server."""

    def sync_weights(self) -> None:
        """Do nothing: weights are published with the acknowledgement of a batch."""


class _Acknowledgements(TrainerCallback):
    """Callback that follows TRL's optimizer steps."""

    def __init__(self, rollouts: RolloutFunction) -> None:
        self._rollouts = rollouts

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        self._rollouts.microstep_ended()

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
        self._rollouts.microstep_ended()
        # TRL's own limit is known by now; its last batch is settled by `on_train_end`.
        if not control.should_training_stop and self._rollouts.step_ended():
            control.should_training_stop = True

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._rollouts.training_ended()

    def on_log(self, *_: Any, logs: Mapping[str, Any], **__: Any) -> None:
        self._rollouts.log(logs)
