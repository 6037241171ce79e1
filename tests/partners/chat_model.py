"""Random chat model whose text drifts: pairs of letters are one token, which it samples rarely.

The folder has a chat template with tools in the format of Hermes, and loads in `rolldeck inference`
and in vLLM.
"""

import json
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.transformer import Transformer
from tests.unit.rollouts.fleet.engine.small_models import small_model

CONTEXT: Final = 2048
SHAPE: Final = {"head_dim": 32, "max_position_embeddings": CONTEXT}
"""vLLM's attention on the CPU needs a head of at least 32."""
VLLM_OPTIONS: Final = (
    *("--logprobs-mode", "processed_logprobs"),
    *("--dtype", "float32", "--enforce-eager", "--max-num-seqs", "8"),
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    "--structured-outputs-config",
    '{"backend": "xgrammar", "disable_any_whitespace": true}',
)
"""Options of vLLM for this model: it parses tools, and a forced tool call ends."""
TEMPLATE: Final = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    '{% for call in m.tool_calls or [] %}<tool_call>\n{"name": "{{ call.function.name }}", '
    '"arguments": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tokenizer(folder: Path) -> int:
    """Write a byte-level tokenizer with merges; return its size."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(one, other) for one in "abcdefgh" for other in "abcdefgh"]
    words = [*letters, *(one + other for one, other in pairs)]
    vocabulary = {word: place for place, word in enumerate(words)}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(  # type: ignore[assignment]
        add_prefix_space=False, use_regex=False
    )
    inner.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    inner.save(str(folder / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    return inner.get_vocab_size()


def write_model(folder: Path) -> Transformer:
    """Write a model with its tokenizer; return it."""
    model = small_model(vocab_size=write_tokenizer(folder), **SHAPE)
    checkpoints.save(model, folder)
    config = json.loads((folder / "config.json").read_text())
    ends = {
        "bos_token_id": model.config.vocab_size - 2,
        "eos_token_id": model.config.vocab_size - 1,
    }
    (folder / "config.json").write_text(json.dumps(config | ends))
    return model
