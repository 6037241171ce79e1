"""A tiny checkpoint with a byte-level tokenizer and the special tokens of Qwen 3."""

import json
from pathlib import Path
from typing import Final

import tokenizers
import torch

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.transformer import Transformer, TransformerConfig

SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKS: Final = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>"),
    *("<tool_response>", "</tool_response>"),
)
"""Tokens of their own that remain in decoded text, as in Qwen 3."""
TEMPLATE: Final = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTEXT: Final = 2048


def write(folder: Path) -> None:
    """Write the checkpoint with random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens([tokenizers.AddedToken(mark, normalized=False) for mark in MARKS])
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    config = TransformerConfig(
        vocab_size=tokenizer.get_vocab_size(with_added_tokens=True),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=CONTEXT,
        head_dim=8,
    )
    torch.manual_seed(0)
    checkpoints.save(Transformer(config), folder)
