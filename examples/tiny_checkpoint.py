"""Create a checkpoint small enough for any machine, in Hugging Face's layout.

    python examples/tiny_checkpoint.py checkpoints/tiny

An untrained Llama of half a million parameters, and a tokenizer with a token for each character.
`rolldeck inference`, Hugging Face's transformers and Atropos environments can open it.
"""

import argparse
import json
import string
from pathlib import Path
from typing import Final

import tokenizers
import torch

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.transformer import Transformer, TransformerConfig

END: Final = "<end>"
UNKNOWN: Final = "<unknown>"
TEMPLATE: Final = (
    "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}={% endif %}"
)


def write_tokenizer(folder: Path) -> int:
    """Write the tokenizer's files; return the size of its vocabulary."""
    characters = [*string.ascii_lowercase, *string.digits, " ", "\n", "=", "+", "?", ",", "."]
    vocabulary = {token: n for n, token in enumerate([END, UNKNOWN, *characters])}
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(vocabulary, unk_token=UNKNOWN)  # type: ignore[call-arg]
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex("[\\s\\S]"), "isolated"
    )
    tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer.add_special_tokens([END, UNKNOWN])
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "unk_token": UNKNOWN,
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described, indent=2))
    return len(vocabulary)


def write(folder: Path, *, seed: int = 0) -> None:
    """Write a complete checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    config = TransformerConfig(
        vocab_size=write_tokenizer(folder),
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=256,
        max_position_embeddings=128,
        head_dim=32,
    )
    torch.manual_seed(seed)
    checkpoints.save(Transformer(config), folder)


def main() -> None:
    """Write a checkpoint to the folder of the command line."""
    parser = argparse.ArgumentParser(description="Make a tiny checkpoint")
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
