"""Programs with TRL, which run in the environment `trl` with their settings in the first argument.

`checkpoint` writes a Qwen 3 of two layers with random weights, `train` trains with `GRPOTrainer`,
`refusals` prints the error of each unusable setting. They print one JSON object per line.
"""

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import tokenizers
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer

from rolldeck.integrations.trl import RolloutFunction, placeholder_prompts, score
from rolldeck.trainer import Trainer

WORDS = 16


def emit(**fields: Any) -> None:
    """Print a line for the test."""
    sys.stdout.write(f"{json.dumps(fields)}\n")
    sys.stdout.flush()


def checkpoint(settings: dict[str, Any]) -> None:
    """Write a model and a tokenizer with a word for each token."""
    torch.manual_seed(settings["seed"])
    config = Qwen3Config(
        vocab_size=WORDS,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        initializer_range=0.2,
        tie_word_embeddings=True,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=None,  # otherwise the embedding of this token gets no gradient
    )
    Qwen3ForCausalLM(config).save_pretrained(settings["folder"])
    words = {word: place for place, word in enumerate(["<end>", "<pad>", *"abcdefghijklmn"])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<end>"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<end>", pad_token="<pad>"
    )
    tokenizer.save_pretrained(settings["folder"])


class RecordingTrainer(Trainer):
    """Trainer that prints each leased batch and the weights that it meets."""

    model: Any = None

    def next_batch(self, *args: Any, **options: Any) -> Any:
        batch = super().next_batch(*args, **options)
        if batch is not None:
            content = hashlib.sha256(b"".join(batch.items)).hexdigest()
            state = {name: tensor.detach() for name, tensor in self.model.named_parameters()}
            digest = hashlib.sha256()
            for name in sorted(state):
                digest.update(name.encode() + state[name].numpy().tobytes())
            emit(batch=batch.head.ordinal, content=content, weights=digest.hexdigest())
            self.newest = batch.head.ordinal
        return batch


class Observer(TrainerCallback):
    """Callback that prints metrics and acknowledgements, and stalls in the middle of a step."""

    def __init__(self, trainer: RecordingTrainer, settings: dict[str, Any]) -> None:
        self._trainer = trainer
        self._settings = settings

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        if self._trainer.newest == self._settings.get("stalls_at"):
            emit(stalled=self._trainer.newest)
            time.sleep(600)

    def on_step_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        if self._settings.get("counts"):
            url = f"{self._settings['url']}/api/v1/runs/{self._settings['run']}/batches"
            headers = {"Authorization": f"Bearer {self._settings['token']}"}
            rows = httpx.get(url, headers=headers).raise_for_status().json()["results"]
            confirmed = sum(row["state"] == "confirmed" for row in rows)
            emit(before_step=state.global_step + 1, confirmed=confirmed)

    def on_log(self, *_: Any, logs: dict[str, Any], **__: Any) -> None:
        emit(logs=logs)


def trainer_of(settings: dict[str, Any]) -> GRPOTrainer:
    """Return a trainer of TRL for the run in the settings."""
    chosen: dict[str, Any] = {
        "output_dir": str(Path(settings["checkpoint"]) / "output"),
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "num_generations": 4,
        "max_steps": 20,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "bf16": False,
        "use_cpu": True,
        "disable_tqdm": True,
    }
    config = GRPOConfig(**(chosen | settings.get("config", {})))
    model = AutoModelForCausalLM.from_pretrained(settings["checkpoint"])
    trainer = RecordingTrainer(settings["url"], settings["run"], settings["token"])
    trainer.model = model
    rollouts = RolloutFunction(trainer, **settings.get("rollouts", {}))
    return GRPOTrainer(
        model,
        args=config,
        processing_class=AutoTokenizer.from_pretrained(settings["checkpoint"]),
        rollout_func=rollouts,
        reward_funcs=score,
        train_dataset=placeholder_prompts(config),
        eval_dataset=placeholder_prompts(config) if config.eval_strategy != "no" else None,
        callbacks=[Observer(trainer, settings)],
    )


def train(settings: dict[str, Any]) -> None:
    """Train until the run or TRL ends."""
    trainer = trainer_of(settings)
    trainer.train(resume_from_checkpoint=settings.get("resume_from_checkpoint", False))
    emit(ended=trainer.state.global_step)
    # A process that ends with an open process group may be aborted.
    trainer.accelerator.end_training()


def refusals(settings: dict[str, Any]) -> None:
    """Print the error of each case."""
    for case in settings["cases"]:
        try:
            trainer_of(settings | case).train()
        except ValueError as error:
            emit(error=type(error).__name__, message=str(error))
        else:
            emit(error=None)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"checkpoint": checkpoint, "train": train, "refusals": refusals}[given["program"]](given)
