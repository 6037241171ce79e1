"""Train a small language model on text tasks, with GRPO on the groups of a Rolldeck run.

    python examples/grpo.py --url http://127.0.0.1:8000 --run my-run --token rd_…

The run's configuration defines the model, the lessons and the sampling. The trainer builds the same
model, clones a few demonstrations until it succeeds occasionally, and publishes that as version 0.
From then on the fleet answers prompts, and every batch of groups yields the next version. With
--checkpoints the weights are also saved, as a folder that the inference server can open; --resume
continues where a trainer was killed. With `language.model.adapter.rank` only a LoRA adapter of the
run's checkpoint is trained and published.

A run with outside environments, such as Atropos', has no configuration: --checkpoint names the
initial model of its inference server, and --batch-size and --temperature replace the settings of
the sampling, the latter where a group states no temperature.

Sources: GRPO, Shao et al. 2024, arXiv:2402.03300, equation 3, without its KL penalty; the other
rules of advantage as in `rolldeck.training.advantages`; --tis as in Yao et al. 2025, "Your
efficient RL framework secretly brings you off-policy RL training".
"""

import argparse
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rolldeck.http import Call, Connection
from rolldeck.trainer import Trainer, TrainerRegistration
from rolldeck.training.advantages import RULES, Rule, of_batch, token_weights, with_variance
from rollouts.fleet.datasets.dataset_task import lesson_task
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.building import Built, build, clone_behavior
from rollouts.fleet.engine.checkpoints import (
    AdaptedModel,
    CheckpointUnreadable,
    PolicyModel,
    published_tensors,
    restore,
    whole,
)
from rollouts.fleet.engine.tokenizers import (
    AlphabetTokenizer,
    ByteTokenizer,
    Tokenizer,
    TokenizerUnusable,
    load_tokenizer,
    save_tokenizer,
)
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.policies.base import tensor_of
from rollouts.tasks.rules.task import InvalidTask, Task
from runs.config.rules.language_config import LanguageConfig

Arrays = Mapping[str, NDArray[Any]]


class NotTrainable(ValueError):
    """The run or a batch is unsuitable for this trainer; the text has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Hyperparameters of the training."""

    rule: Rule = "dr_grpo"
    learning_rate: float = 3e-4
    """Rate of Adam. With data two versions old, 1e-3 made some runs of a small model collapse:
    all answers to a prompt become equally wrong, and its groups teach nothing again."""
    clip: float = 0.2
    """Clipping range of the ratio around 1 (ε)."""
    tis: float | None = None
    """Upper bound of a token's importance weight between trainer and sampler; None compares with
    the sampler's probabilities directly."""
    minibatches: int = 1
    """Optimizer updates per train step."""
    max_gradient_norm: float = 1.0


class Rows(NamedTuple):
    """B sequences, shifted: position t is the prediction of token t + 1."""

    tokens: Tensor
    """``[B, T]`` input tokens."""
    targets: Tensor
    """``[B, T]`` tokens to predict; 0 where untrained."""
    trained: Tensor
    """``[B, T]`` bool: token written by the policy."""
    behavior: Tensor
    """``[B, T]`` log probability under the weights that sampled it."""
    advantages: Tensor
    """``[B, 1]``."""
    temperature: Tensor
    """``[B, 1, 1]``, at which the answer was sampled."""

    def at(self, places: Tensor) -> "Rows":
        """Return the rows at some positions."""
        return Rows(*(column[places] for column in self))

    def to(self, device: torch.device) -> "Rows":
        """Return the rows on a device."""
        return Rows(*(column.to(device) for column in self))


class Learner:
    """Learner that updates a model from batches of groups."""

    def __init__(self, model: PolicyModel, settings: Settings, *, seed: int) -> None:
        self.model = model.train()
        self.settings = settings
        self.optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
        self._random = torch.Generator().manual_seed(seed)

    def learn(self, arrays: Arrays) -> dict[str, float]:
        """Update the model from the arrays of `Batch.padded`; return metrics.

        Raises:
            NotTrainable: If tokens lack the log probabilities of their sampling.
        """
        scores, groups = arrays["scores"], arrays["group_index"]
        teaches = with_variance(scores, groups, **_exceptions(arrays))
        every, used = len(np.unique(groups)), len(np.unique(groups[teaches]))
        metrics = {
            "reward_mean": float(scores.mean()),
            "answer_tokens": float((arrays["masks"] >= 0).sum(axis=1).mean()),
            "groups": float(every),
            "zero_variance_groups": float(every - used),
        }
        if not teaches.any():
            return metrics
        rows = self._rows({name: array[teaches] for name, array in arrays.items()})
        rows = rows.to(self.model.embed.weight.device)
        anchor, correction = self._anchor(rows)
        metrics |= self._compare(rows)
        shuffled = torch.randperm(len(rows.tokens), generator=self._random)
        parts = shuffled.chunk(self.settings.minibatches)
        found = [self._update(rows.at(part), anchor[part], correction[part]) for part in parts]
        return metrics | {name: float(np.mean([one[name] for one in found])) for name in found[0]}

    def logprobs(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the log probabilities of the targets, and of all tokens ``[B, T, vocab]``."""
        every = torch.log_softmax(self.model(rows.tokens) / rows.temperature, dim=-1)
        return every.gather(-1, rows.targets[..., None]).squeeze(-1), every

    def _rows(self, arrays: Arrays) -> Rows:
        if "inference_logprobs" not in arrays or not arrays["has_inference_logprobs"].all():
            raise NotTrainable("groups lack inference_logprobs, which the ratio needs")
        tokens, labels = arrays["tokens"], arrays["masks"][:, 1:]
        vocabulary = self.model.config.vocab_size
        if tokens.max() >= vocabulary:
            raise NotTrainable(f"token {tokens.max()} is outside the model's {vocabulary} tokens")
        advantages = of_batch(
            arrays["scores"],
            arrays["group_index"],
            rule=self.settings.rule,
            **_exceptions(arrays),
        )
        return Rows(
            tokens=torch.from_numpy(tokens[:, :-1].astype(np.int64)),
            targets=torch.from_numpy(np.maximum(labels, 0).astype(np.int64)),
            trained=torch.from_numpy(labels >= 0),
            behavior=torch.from_numpy(arrays["inference_logprobs"][:, 1:].copy()),
            advantages=torch.from_numpy(advantages.astype(np.float32))[:, None],
            temperature=torch.from_numpy(arrays["temperature"])[:, None, None],
        )

    @torch.no_grad()
    def _anchor(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the ratio's reference and each token's correction factor, ``[B, T]``."""
        if self.settings.tis is None:
            return rows.behavior, torch.ones_like(rows.behavior)
        now, _ = self.logprobs(rows)
        correction = torch.where(rows.trained, (now - rows.behavior).exp(), 1.0)
        return now, correction.clamp(max=self.settings.tis)

    @torch.no_grad()
    def _compare(self, rows: Rows) -> dict[str, float]:
        """Return the model's distance from the sampling one, before learning from the batch.

        KL by Schulman's estimator k3, which is never negative (joschu.net/blog/kl-approx).
        """
        now, every = self.logprobs(rows)
        log_ratio = (now - rows.behavior)[rows.trained]
        entropy = -(every.exp() * every).sum(-1)[rows.trained]
        kl = log_ratio.exp() - 1 - log_ratio
        return {"kl": float(kl.mean()), "entropy": float(entropy.mean())}

    def _update(self, rows: Rows, anchor: Tensor, correction: Tensor) -> dict[str, float]:
        s = self.settings
        now, _ = self.logprobs(rows)
        ratio = torch.where(rows.trained, (now - anchor).exp(), 1.0)
        within = ratio.clamp(1 - s.clip, 1 + s.clip)
        gain = torch.min(ratio * rows.advantages, within * rows.advantages) * correction
        # The same for all batches, otherwise a token in a batch with long prompts counts less.
        longest = self.model.config.max_position_embeddings
        weights = torch.from_numpy(
            token_weights(rows.trained.cpu().numpy(), rule=s.rule, longest_tokens=longest)
        )
        loss = -(weights.to(gain.device) * gain).sum()
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), s.max_gradient_norm)
        self.optimizer.step()
        is_clipped = (ratio * rows.advantages > within * rows.advantages) & rows.trained
        return {
            "loss": loss.item(),
            "clip_fraction": float(is_clipped.sum() / rows.trained.sum()),
            "gradient_norm": float(norm),
        }


def _exceptions(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return the arrays by which sequences are left out of the comparison, or do not teach."""
    return {name: arrays[name] for name in ("lengths", "zero_advantage")}


def language_of(config: Mapping[str, Any]) -> tuple[LanguageConfig, float]:
    """Return the language part of a run's configuration, and the temperature of its answers.

    Raises:
        NotTrainable: If it has none, or answers are not sampled from the trained distribution.
    """
    if not config.get("language"):
        raise NotTrainable("not a language run: without lessons, --checkpoint is required")
    language = msgspec.convert(config["language"], LanguageConfig)
    temperatures = {lesson.sampling.temperature for lesson in language.lessons.values()}
    if len(temperatures) > 1 or 0 in temperatures:
        raise NotTrainable(f"lessons need one temperature above 0, not {sorted(temperatures)}")
    return language, temperatures.pop()


def device(name: str) -> torch.device:
    """Return the device of a name, such as cpu, cuda or cuda:1.

    Raises:
        argparse.ArgumentTypeError: If this machine lacks it.
    """
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise argparse.ArgumentTypeError(f"{name} cannot be used: {reason}") from error


def parse_args() -> argparse.Namespace:
    """Return the arguments, with defaults from environment variables."""
    parser = argparse.ArgumentParser(description="Train the model of a language run with GRPO.")
    given = os.environ.get
    parser.add_argument("--url", default=given("ROLLDECK_URL", "http://127.0.0.1:8000"))
    run, models = given("ROLLDECK_RUN"), given("ROLLDECK_CHECKPOINTS")
    parser.add_argument("--run", default=run, required=run is None)
    parser.add_argument("--token", default=given("ROLLDECK_TOKEN"), help="scope: trainer")
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--advantages", default=Settings().rule, choices=[*RULES])
    parser.add_argument("--tis", type=float, metavar="C", help="truncate importance weights at C")
    parser.add_argument("--learning-rate", type=float, default=Settings().learning_rate)
    parser.add_argument("--checkpoints", type=Path, help="folder for the newest version")
    parser.add_argument("--models", type=Path, default=models, help="folder of runs' checkpoints")
    outside = parser.add_argument_group("runs with outside environments")
    outside.add_argument("--checkpoint", type=Path, help="their inference server's initial model")
    outside.add_argument("--temperature", type=float, default=1.0, help="where they state none")
    outside.add_argument("--batch-size", type=int, default=64, help="answers per train step")
    outside.add_argument("--steps", type=int, default=1000, help="train steps")
    parser.add_argument("--resume", action="store_true", help="continue from the published weights")
    args = parser.parse_args()
    if args.tis is not None and not args.tis > 0:
        parser.error("--tis: must be above 0")
    if not args.temperature > 0:
        parser.error("--temperature: must be above 0: greedy answers are not samples")
    if not 0 < args.learning_rate < 1:
        parser.error("--learning-rate: must be between 0 and 1")
    return args


class PolicySetup(NamedTuple):
    """The model to train, with its settings."""

    model: PolicyModel
    tokenizer: Tokenizer
    temperature: float
    """Temperature of the answers."""
    seed: int
    steps: int
    demonstrated: Mapping[str, Task]
    """Lessons for behavior cloning of an untrained model, by name."""


def policy_setup(registration: TrainerRegistration, args: argparse.Namespace) -> PolicySetup:
    """Return the model of a run's configuration, or that of --checkpoint."""
    if args.checkpoint is not None and not registration.config:
        tokenizer = load_tokenizer(args.checkpoint)
        model = checkpoints.load(args.checkpoint, dtype=torch.float32)
        return PolicySetup(model, tokenizer, args.temperature, 0, args.steps, demonstrated={})
    language, temperature = language_of(registration.config)
    seed = registration.config["seed"]
    torch.manual_seed(seed)
    built = build(language, checkpoints_folder=args.models)
    model = AdaptedModel.around(built.model, language.model.adapter)
    # A checkpoint is already trained.
    names = [] if language.model.checkpoint else language.lesson_order
    demonstrated = {name: lesson_task(language.lessons[name]) for name in names}
    steps = registration.config["num_steps"]
    return PolicySetup(model, built.tokenizer, temperature, seed, steps, demonstrated=demonstrated)


class CheckpointFolder:
    """Folder of the newest weights, in the inference server's format, and the optimizer state."""

    def __init__(self, folder: Path | None) -> None:
        """Store the folder; with None nothing is saved."""
        self._folder = folder

    def save(
        self,
        model: PolicyModel,
        optimizer: torch.optim.Optimizer,
        tokenizer: Tokenizer,
        *,
        step: int,
    ) -> None:
        """Write version `step`, each file atomically; an adapter is merged into its model."""
        if self._folder is None:
            return
        checkpoints.save(whole(model), self._folder)
        if isinstance(tokenizer, ByteTokenizer | AlphabetTokenizer):
            save_tokenizer(tokenizer, self._folder)
        part = self._folder / "optimizer.pt.part"
        torch.save({"step": step, "state": optimizer.state_dict()}, part)
        part.replace(self._folder / "optimizer.pt")

    def restore(self, optimizer: torch.optim.Optimizer, *, step: int) -> bool:
        """Load the optimizer's state of version `step`; return whether it exists."""
        path = self._folder / "optimizer.pt" if self._folder else None
        kept = (
            torch.load(path, weights_only=True, map_location="cpu")
            if path and path.exists()
            else {}
        )
        if kept.get("step") != step:
            return False
        optimizer.load_state_dict(kept["state"])
        return True


def initialize(
    trainer: Trainer, setup: PolicySetup, registration: TrainerRegistration, *, resumes: bool
) -> int:
    """Prepare the initial model; return its version."""
    if resumes:
        _, arrays = trainer.current_weights()
        tensors = {name: tensor_of(array) for name, array in arrays.items()}
        restore(setup.model, tensors)
        return registration.policy_step
    if isinstance(setup.model, Transformer):
        built = Built(setup.model, setup.tokenizer)
        for name, share in clone_behavior(built, setup.demonstrated, seed=setup.seed).items():
            print(f"imitated {name}: {100 * share:.0f} % of greedy answers are right", flush=True)
    trainer.publish_weights(published_tensors(setup.model), step=0)
    return 0


def train(trainer: Trainer, args: argparse.Namespace) -> None:
    """Join the run, publish the initial weights, then learn from each batch."""
    registration = trainer.register(resume=args.resume)
    setup, state = policy_setup(registration, args), CheckpointFolder(args.checkpoints)
    resumes = args.resume and registration.policy_step >= 0
    step = initialize(trainer, setup, registration, resumes=resumes)
    setup.model.to(args.device)
    settings = Settings(rule=args.advantages, tis=args.tis, learning_rate=args.learning_rate)
    learner = Learner(setup.model, settings, seed=setup.seed)
    if resumes and not state.restore(learner.optimizer, step=step):
        print("no optimizer state for this version; starting with a new optimizer", flush=True)
    print(f"epoch {registration.epoch}, from version {step}", flush=True)
    for batch in trainer.batches():
        step += 1
        metrics = learner.learn(batch.padded(temperature=setup.temperature))
        state.save(setup.model, learner.optimizer, setup.tokenizer, step=step)
        trainer.publish_weights(published_tensors(setup.model), step=step)
        trainer.log_metrics(metrics, step=step)
        shown = " ".join(f"{name}={value:.4g}" for name, value in metrics.items())
        print(f"version {step} from batch {batch.head.ordinal}: {shown}", flush=True)
        if step >= setup.steps:
            trainer.ack(batch)
            return


def configure(connection: Connection, args: argparse.Namespace) -> None:
    """Register as Atropos' trainers do, which sets the batch size: the run has no configuration."""
    config = checkpoints.read_config(args.checkpoint / "config.json")
    registration = {
        "wandb_group": "examples",
        "wandb_project": "grpo",
        "batch_size": args.batch_size,
        "max_token_len": config.max_position_embeddings,
        "checkpoint_dir": "",
        "save_checkpoint_interval": 0,
        "starting_step": 0,
        "num_steps": args.steps,
    }
    path = f"/atropos/{quote(args.run, safe='')}/register"
    connection.json(Call(method="POST", path=path, json=registration))


def main() -> None:
    """Train with the arguments of the command line."""
    args = parse_args()
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        with Connection(args.url, args.token) as connection:
            if args.checkpoint is not None and not args.resume:
                configure(connection, args)
            train(Trainer("", args.run, connection=connection, name="grpo"), args)
    except (NotTrainable, InvalidTask, CheckpointUnreadable, TokenizerUnusable) as error:
        raise SystemExit(f"grpo: {error}") from error


if __name__ == "__main__":
    main()
