"""Measure the engine of language runs on a device. See :mod:`benchmarks.gpu_check`."""

import time
from collections.abc import Sequence
from copy import deepcopy
from typing import Final

import torch

from benchmarks.gpu_measures import Figures, Wrong, copies_per_call
from rollouts.fleet.engine.engine import Answer, Engine, Prompt, SamplingParams, generate
from rollouts.fleet.engine.transformer import Transformer, TransformerConfig

ROWS: Final = 64
PROMPT: Final = tuple(range(1, 17))
CHECKED_TOKENS: Final = 16
CONFIG: Final = TransformerConfig(
    vocab_size=256,
    hidden_size=256,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    intermediate_size=512,
    max_position_embeddings=256,
    head_dim=32,
)
TOLERANCES: Final = {"float32": 1e-2, "bfloat16": 0.3, "float16": 0.05}
"""Tolerated difference of a log probability from a full pass in float32 on the CPU."""


def engine(device: str, precision: str, seconds: float) -> Figures:
    """Return the tokens per second, and the largest difference of a log probability.

    Raises:
        Wrong: If log probabilities differ from a full pass in float32 on the CPU by more than the
            tolerance, a step copies more than once, or a new version is not adopted.
    """
    exact = example_model()
    model = deepcopy(exact).to(device, getattr(torch, precision))
    answers = generate(Engine(model, rows=ROWS), [prompt_of(8, CHECKED_TOKENS)])[0]
    difference = difference_of(exact, answers)
    if not difference < TOLERANCES[precision]:
        raise Wrong(
            f"a log probability differs by {difference:.3g} from float32 on the CPU, "
            f"limit {TOLERANCES[precision]:g}"
        )
    running = Engine(model, rows=ROWS)
    running.submit(prompt_of(ROWS, CONFIG.max_position_embeddings))
    running.step()
    copies = copies_per_call(running.step, device)
    running.adopt(deepcopy(model), (1, 1))
    if not all(answer.versions[-1] == (1, 1) for answer in running.step()):
        raise Wrong("tokens after a new version are not labelled with it")
    figures = {
        "tokens_per_second": round(_rate(model, seconds)),
        "difference": difference,
    }
    return figures if copies is None else {**figures, "copies_per_step": copies}


def language_weights(device: str, precision: str) -> Figures:
    """Return the time to prepare a version of a model's weights that is published from a device.

    Raises:
        Wrong: If the weights have changed.
    """
    from rolldeck import safetensors
    from rolldeck.safetensors import array_of
    from rollouts.fleet.engine.checkpoints import named_tensors
    from rollouts.fleet.groups.torch_server import TorchInferenceServer

    dtype = getattr(torch, precision)
    trained = example_model().to(device, dtype)
    began = time.monotonic()
    content = safetensors.encode({name: array_of(one) for name, one in named_tensors(trained)})
    encoded = time.monotonic()
    server = TorchInferenceServer(example_model().to(device, dtype), rows=1)
    try:
        tensors = safetensors.decode(content)
        server.prepare(tensors)  # loads what torch imports on first use
        created = time.monotonic()
        prepared = server.prepare(tensors)
        if device == "cuda":
            torch.cuda.synchronize()
        took = time.monotonic() - created
    finally:
        server.close()
    expected, found = dict(named_tensors(trained)), dict(named_tensors(prepared))
    changed = [name for name, one in expected.items() if not torch.equal(one, found[name])]
    if changed:
        raise Wrong(f"weights changed on the way to the CPU and back: {', '.join(changed)}")
    return {
        "mb": round(len(content) / 1e6, 1),
        "publish_ms": round(1000 * (encoded - began), 2),
        "prepare_ms": round(1000 * took, 2),
    }


def example_model() -> Transformer:
    torch.manual_seed(0)
    model: Transformer = Transformer(CONFIG).eval()
    for weight in model.parameters():
        # Wider than at the start of a training, for predictions that are far from uniform.
        torch.nn.init.normal_(weight, mean=float(weight.dim() == 1), std=0.08)
    return model


def prompt_of(answers: int, tokens: int) -> Prompt:
    return Prompt(tokens=PROMPT, answers=answers, sampling=SamplingParams(max_tokens=tokens))


def difference_of(exact: Transformer, answers: Sequence[Answer]) -> float:
    tokens = torch.tensor([[*PROMPT, *answer.tokens] for answer in answers])
    with torch.inference_mode():
        logprobs = torch.log_softmax(exact(tokens), dim=-1)[:, len(PROMPT) - 1 : -1]
    expected = logprobs.gather(-1, tokens[:, len(PROMPT) :, None]).squeeze(-1)
    given = torch.tensor([answer.logprobs for answer in answers])
    return float((expected - given).abs().max())


def _rate(model: Transformer, seconds: float) -> float:
    engine = Engine(model, rows=ROWS)
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        if engine.is_idle:
            engine.submit(prompt_of(ROWS, CONFIG.max_position_embeddings))
        engine.step()
    return engine.drawn / (time.monotonic() - began)
