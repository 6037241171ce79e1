"""A transformer that takes a millisecond per step, with sequences for it."""

import torch

from rollouts.fleet.engine.transformer import Transformer, TransformerConfig


def small_config(**changed: object) -> TransformerConfig:
    shapes: dict[str, object] = {
        "vocab_size": 40,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 96,
        "head_dim": 8,
    }
    return TransformerConfig(**(shapes | changed))  # type: ignore[arg-type]


def small_model(*, seed: int = 0, **changed: object) -> Transformer:
    """Return a transformer with clearly non-uniform predictions."""
    torch.manual_seed(seed)
    model = Transformer(small_config(**changed))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, mean=float(weight.dim() == 1), std=0.3)
    return model.eval()


def logprobs(model: Transformer, tokens: list[int]) -> torch.Tensor:
    """Return the log probability of each next token, ``[T, vocab]``, from one full pass."""
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor([tokens]))[0], dim=-1)
