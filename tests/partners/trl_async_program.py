"""Trainings with TRL's `AsyncGRPOTrainer` on a CPU, in the environment `trl`.

Its attention calls a kernel for GPUs, FlashAttention 3. `varlen_attention` computes the same
function with torch; everything else is TRL's. The settings are the first argument, and the program
prints one JSON object per line.
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import torch
from datasets import Dataset
from torch import Tensor
from transformers import AutoTokenizer, TrainerCallback
from trl.experimental.async_grpo import (
    AsyncGRPOConfig,
    AsyncGRPOTrainer,
    async_grpo_trainer,
    packing,
)

from rolldeck.integrations.trl_async import AsyncRollouts
from rolldeck.trainer import Trainer


def emit(**fields: Any) -> None:
    """Print a line for the test."""
    sys.stdout.write(f"{json.dumps(fields)}\n")
    sys.stdout.flush()


def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    *_: Any,
    softmax_scale: float,
    **__: Any,
) -> Tensor:
    """Return the causal attention of packed segments, aligned at their ends, ``[N, H, D]``."""
    parts = []
    for place in range(len(query_starts) - 1):
        q = query[query_starts[place] : query_starts[place + 1]].transpose(0, 1)
        k, v = (
            tensor[key_starts[place] : key_starts[place + 1]].transpose(0, 1)
            for tensor in (key, value)
        )
        rows, columns = q.shape[1], k.shape[1]
        mask = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
        out = torch.nn.functional.scaled_dot_product_attention(
            q[None], k[None], v[None], attn_mask=mask, scale=softmax_scale, enable_gqa=True
        )
        parts.append(out[0].transpose(0, 1))
    return torch.cat(parts)


class Observed(AsyncGRPOTrainer):
    """Trainer that prints the terms of each loss."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        names = ("input_ids", "old_log_probs", "advantages", "segment_id")
        emit(**{name: inputs[name][0].tolist() for name in names})
        self.samples = len(set(inputs["segment_id"][0].tolist()))
        return super().compute_loss(model, inputs, *args, **options)


class Observer(TrainerCallback):
    """Callback that prints metrics and acknowledgements, and stalls in the middle of a step."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._trained = 0
        self.trainer: Any = None

    def on_pre_optimizer_step(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        if state.global_step + 1 == self._settings.get("stalls_at"):
            emit(stalled=state.global_step + 1)
            time.sleep(600)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Print the state after the weight sync of the step before."""
        emit(trained=self._trained, confirmed=confirmed_batches(self._settings))

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._trained += self.trainer.samples

    def on_log(self, *_: Any, logs: dict[str, Any], **__: Any) -> None:
        emit(logs=logs)


def confirmed_batches(settings: dict[str, Any]) -> int:
    """Return the number of acknowledged batches of the run."""
    url = f"{settings['url']}/api/v1/runs/{settings['run']}/batches"
    headers = {"Authorization": f"Bearer {settings['token']}"}
    rows = httpx.get(url, headers=headers).raise_for_status().json()["results"]
    return sum(row["state"] == "confirmed" for row in rows)


def main(settings: dict[str, Any]) -> None:
    """Train until TRL's limit, or print the error that ended the training."""
    async_grpo_trainer.get_peak_flops_per_device = lambda *_: 1.0  # of a metric only
    packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=varlen_attention)
    chosen: dict[str, Any] = {
        "output_dir": str(Path(settings["checkpoint"]) / "output"),
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "num_generations": 4,
        "token_budget": 0,
        "max_staleness": 100,
        "heartbeat_stale_after_s": 5.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }
    trainer = Trainer(settings["url"], settings["run"], settings["token"])
    rollouts = AsyncRollouts(trainer, **settings.get("rollouts", {}))
    observer = Observer(settings)
    observed = Observed(
        settings["checkpoint"],
        args=AsyncGRPOConfig(**(chosen | settings.get("config", {}))),
        processing_class=AutoTokenizer.from_pretrained(settings["checkpoint"]),
        train_dataset=Dataset.from_dict({"prompt": [""]}),
        callbacks=[observer],
        rollout_worker=rollouts,
        weight_transfer=AsyncRollouts(trainer) if settings.get("is_separate") else rollouts,
    )
    observer.trainer = observed
    try:
        observed.train()
    except (RuntimeError, ValueError) as error:
        emit(error=type(error).__name__, message=str(error))
    else:
        emit(ended=observed.state.global_step)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
