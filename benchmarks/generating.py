"""Generate groups of answers with our engine or with Hugging Face's `generate`.

`python generating.py ours|hf CHECKPOINT`, each in a separate environment. Each line of standard
input is a JSON object (`Work`); the response is a line with tokens and seconds of processor time.
Both count an answer's tokens up to and including its stop token; both use one thread.
"""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any, TypedDict

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


class Work(TypedDict):
    """One task: `prompts` of `prompt_tokens`, with `answers` to each."""

    prompts: int
    prompt_tokens: int
    answers: int
    most_tokens: int
    stop_tokens: list[int]
    """Tokens that end an answer; empty for answers of full length."""
    seed: int


def prompts_of(work: Work, vocabulary: int) -> list[list[int]]:
    drawn = random.Random(work["seed"])  # noqa: S311 the same for both sides
    return [
        [drawn.randrange(vocabulary) for _ in range(work["prompt_tokens"])]
        for _ in range(work["prompts"])
    ]


class Rolldeck:
    """The engine of `rolldeck inference` and of the workers of language runs."""

    def __init__(self, folder: Path) -> None:
        from rollouts.fleet.engine import checkpoints

        self._model = checkpoints.load(folder)
        self.vocabulary = self._model.config.vocab_size

    def generate(self, work: Work, prompts: list[list[int]]) -> int:
        from rollouts.fleet.engine.engine import Engine, Prompt, SamplingParams, generate

        engine = Engine(self._model, rows=work["prompts"] * work["answers"])
        requests = [
            Prompt(
                tokens=tuple(tokens),
                sampling=SamplingParams(
                    max_tokens=work["most_tokens"],
                    stop_tokens=frozenset(work["stop_tokens"]),
                    seed=work["seed"] * 1000 + place,
                ),
                answers=work["answers"],
            )
            for place, tokens in enumerate(prompts)
        ]
        completions = generate(engine, requests)
        return sum(
            len(answer.tokens) for completions in completions.values() for answer in completions
        )


class HuggingFace:
    """`generate` of transformers with its defaults, except for plain sampling."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.vocabulary: int = self._model.config.vocab_size

    def generate(self, work: Work, prompts: list[list[int]]) -> int:
        torch.manual_seed(work["seed"])
        ids = torch.tensor(prompts)
        stops = work["stop_tokens"]
        with torch.inference_mode():
            out = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                num_return_sequences=work["answers"],
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                max_new_tokens=work["most_tokens"],
                # Without stop tokens: an id outside the vocabulary.
                eos_token_id=stops or self.vocabulary,
                pad_token_id=0,
            )
        rows = out[:, ids.shape[1] :].tolist()
        return sum(_length(row, stops) for row in rows)


def _length(row: list[int], stops: list[int]) -> int:
    ends = [place for place, token in enumerate(row) if token in stops]
    return ends[0] + 1 if ends else len(row)


def main() -> None:
    """Generate the answers of each task."""
    torch.set_num_threads(1)
    kind, folder = sys.argv[1], Path(sys.argv[2])
    side = Rolldeck(folder) if kind == "ours" else HuggingFace(folder)
    print("ready", flush=True)
    for line in sys.stdin:
        work: Work = json.loads(line)
        prompts = prompts_of(work, side.vocabulary)
        began = time.process_time()
        tokens = side.generate(work, prompts)
        print(tokens, time.process_time() - began, flush=True)


if __name__ == "__main__":
    main()
