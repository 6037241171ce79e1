"""Train a language model with TRL's GRPOTrainer on the groups of a Rolldeck run.

    python examples/trl_grpo.py --run words --token rd_… --checkpoint checkpoints/tiny

The run's fleet, or outside environments, answer prompts and score the answers. TRL trains on each
batch, and every batch yields the next version of the weights. The example needs
`pip install rolldeck trl torch` in an environment of its own; the platform needs no TRL.

`--sequences` is the batch size of the run, `--generations` the size of its groups.
"""

import argparse
import os

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from rolldeck.integrations.trl import RolloutFunction, placeholder_prompts, score
from rolldeck.trainer import Trainer


def parse_args() -> argparse.Namespace:
    """Return the arguments, with defaults from environment variables."""
    parser = argparse.ArgumentParser(description="Train on a run with TRL's GRPOTrainer.")
    given = os.environ.get
    parser.add_argument("--url", default=given("ROLLDECK_URL", "http://127.0.0.1:8000"))
    run = given("ROLLDECK_RUN")
    parser.add_argument("--run", default=run, required=run is None)
    parser.add_argument("--token", default=given("ROLLDECK_TOKEN"), help="scope: trainer")
    parser.add_argument("--checkpoint", required=True, help="folder or name of the model")
    parser.add_argument("--output", default="trl-output", help="folder of the trained model")
    parser.add_argument("--sequences", type=int, default=64, help="batch size of the run")
    parser.add_argument("--microbatch", type=int, default=16, help="sequences of a forward pass")
    parser.add_argument("--generations", type=int, default=4, help="group size of the run")
    parser.add_argument("--steps", type=int, default=200, help="train steps")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--resume", action="store_true", help="continue from the published weights")
    args = parser.parse_args()
    if args.sequences % args.microbatch:
        parser.error("--sequences: must be a multiple of --microbatch")
    return args


def main() -> None:
    """Train with the arguments of the command line."""
    args = parse_args()
    config = GRPOConfig(
        output_dir=args.output,
        per_device_train_batch_size=args.microbatch,
        gradient_accumulation_steps=args.sequences // args.microbatch,
        num_generations=args.generations,
        max_steps=args.steps,
        learning_rate=args.learning_rate,
        bf16=torch.cuda.is_available(),
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    source = Trainer(args.url, args.run, args.token, name="trl")
    trainer = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(args.checkpoint),
        args=config,
        processing_class=AutoTokenizer.from_pretrained(args.checkpoint),
        rollout_func=RolloutFunction(source, resume=args.resume),
        reward_funcs=score,
        train_dataset=placeholder_prompts(config),
    )
    trainer.train()
    trainer.save_model(args.output)


if __name__ == "__main__":
    main()
