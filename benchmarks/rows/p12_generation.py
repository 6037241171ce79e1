"""P12: tokens per second for groups of answers, compared with Hugging Face's `generate`.

The work is a step of GRPO: several prompts with several answers each, which end at a stop token.
Both sides have the same weights, prompts, limits and one thread. Tokens are divided by processor
time, because the machine may be shared.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench, Figures, Row
from benchmarks.figures import Limit, Target
from benchmarks.generating import Work
from benchmarks.peers import HUGGING_FACE, PeerMissing

SCRIPT: Final = str(Path(__file__).parents[1] / "generating.py")
# From a vocabulary of 259, sampled almost uniformly: answers end after 65 tokens on average.
STOPS: Final = [1, 2, 3, 4]
SHAPES: Final = {
    "vocab_size": 259,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 688,
    "max_position_embeddings": 512,
    "head_dim": 32,
}


def run(bench: Bench) -> Figures:
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="rolldeck-p12-")))
        _write_checkpoint(folder)
        ours = parts.enter_context(generator(sys.executable, "ours", folder))
        python = sys.executable if bench.is_alone else str(HUGGING_FACE.python())
        peer = ours if bench.is_alone else parts.enter_context(generator(python, "hf", folder))

        def compared(what: str, prompts: int, stops: list[int], most: int) -> Figures:
            def measure(side: Generator) -> float:
                side.seed += 1
                return side.rate(_work(prompts, stops, most, seed=side.seed))

            return bench.compare(
                what,
                ours=lambda: measure(ours),
                peer=lambda: measure(peer),
                better="more",
            )

        prompts = 1 if bench.tiny else 8
        figures = compared(f"{prompts} prompts × 8 answers that end", prompts, STOPS, 128)
        if not bench.is_short:
            figures["fixed_length"] = compared("answers of 64 tokens each", prompts, [], 64)
        if bench.full:
            wide = compared("32 prompts × 8 answers that end", 32, STOPS, 128)
            figures["growth"] = [{"work": "4×"} | wide]
        return figures


class Generator:
    """A process that generates on request."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.seed = 0
        self._line()

    def rate(self, work: Work) -> float:
        """Return tokens per second of processor time."""
        assert self._process.stdin is not None  # noqa: S101 it was asked for
        self._process.stdin.write(json.dumps(work) + "\n")
        self._process.stdin.flush()
        tokens, seconds = self._line().split()
        return int(tokens) / float(seconds)

    def _line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 it was asked for
        line = self._process.stdout.readline()
        if not line:
            raise PeerMissing(f"{self._process.args!r} ended")
        return line


@contextmanager
def generator(python: str, kind: str, folder: Path) -> Iterator[Generator]:
    """Start one side; it is killed at the end of the block."""
    hidden = {} if kind == "ours" else {"PYTHONPATH": ""}
    process = subprocess.Popen(
        [python, SCRIPT, kind, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ) | hidden,
    )
    with process:
        try:
            yield Generator(process)
        finally:
            process.kill()


def _work(prompts: int, stops: list[int], most: int, *, seed: int) -> Work:
    return Work(
        prompts=prompts,
        prompt_tokens=128,
        answers=8,
        most_tokens=most,
        stop_tokens=stops,
        seed=seed,
    )


def _write_checkpoint(folder: Path) -> None:
    import torch

    from rollouts.fleet.engine import checkpoints
    from rollouts.fleet.engine.transformer import Transformer, TransformerConfig

    torch.manual_seed(0)
    checkpoints.save(Transformer(TransformerConfig(**SHAPES)), folder)  # type: ignore[arg-type]


ROW = Row(
    name="P12",
    measure="tokens of 8 prompts × 8 answers, 128 tokens before and up to 128 after, by one core",
    peer="Hugging Face's generate, the same weights",
    unit="tokens/CPU s",
    better="more",
    mark=Target(words="≥ 2×", limits=(Limit(figure="ratio", at_least=2.0),)),
    goal=Target(words="≥ 5×", limits=(Limit(figure="ratio", at_least=5.0),)),
    run=run,
)
