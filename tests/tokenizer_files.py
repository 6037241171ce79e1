"""Tokenizers of each common kind, trained on a few sentences."""

from collections.abc import Callable
from typing import Final

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SENTENCES: Final = (
    "Hello world, the quick brown fox.",
    "你好世界。这是中文。",
    "emoji 😀 🎉 done",
    "x = 3 + 4\n\tprint(x)",
)
END: Final = "<|im_end|>"


def byte_level() -> Tokenizer:
    """Return a tokenizer as of GPT-2, Llama 3 and Qwen."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def byte_fallback() -> Tokenizer:
    """Return a tokenizer as of Llama 2 and Gemma: tokens of bytes for unknown characters."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1),
        ]
    )
    known = [END, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=known, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES[:1], trainer)
    return tokenizer


def word_piece() -> Tokenizer:
    """Return a tokenizer as of BERT."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=120, special_tokens=["[UNK]", END], show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def unigram() -> Tokenizer:
    """Return a tokenizer as of T5: the unigram model of SentencePiece."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<unk>", END], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


KINDS: Final[dict[str, Callable[[], Tokenizer]]] = {
    "byte_level": byte_level,
    "byte_fallback": byte_fallback,
    "word_piece": word_piece,
    "unigram": unigram,
}


def content_of(tokenizer: Tokenizer) -> bytes:
    """Return the `tokenizer.json` of a tokenizer."""
    return str(tokenizer.to_str()).encode()
