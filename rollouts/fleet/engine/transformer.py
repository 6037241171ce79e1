"""A small decoder-only transformer in the style of Llama and Qwen.

RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467), rotary positions (Su et al. 2021,
arXiv:2104.09864), grouped-query attention (Ainslie et al. 2023, arXiv:2305.13245) and SwiGLU
(Shazeer 2020, arXiv:2002.05202). Projections of the same input are one matrix here and several in
a checkpoint; :mod:`rollouts.fleet.engine.checkpoints` converts them.
"""

import math
from typing import Final

import numpy as np
import torch
from msgspec import Struct
from torch import Tensor, nn
from torch.nn import functional

INITIAL_SPREAD: Final = 0.02


class TransformerConfig(Struct, frozen=True, kw_only=True):
    """Shapes of a transformer, with the names of Hugging Face's ``config.json``."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    max_position_embeddings: int
    """Maximum length of a sequence in tokens, prompt and answer together."""
    head_dim: int
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    """Whether queries, keys and values have biases, as in Qwen 2."""
    qk_norm: bool = False
    """Whether queries and keys are normalized per head, as in Qwen 3."""


class KvCache:
    """Cached keys and values of S sequences.

    `values` are ``[layers, S, kv_heads, capacity, head_dim]``. `keys` have the last two dimensions
    swapped, as each step multiplies by them in that layout.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        sequences: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        lines = (config.num_hidden_layers, sequences, config.num_key_value_heads)
        self.keys = _zeros((*lines, config.head_dim, capacity), device, dtype)
        self.values = _zeros((*lines, capacity, config.head_dim), device, dtype)

    def copy(self, source: int, targets: Tensor, length: int) -> None:
        """Copy the first `length` tokens of sequence `source` to the sequences `targets`."""
        keys, values = self.keys, self.values
        keys[:, targets, ..., :length] = keys[:, source : source + 1, ..., :length]
        values[:, targets, :, :length] = values[:, source : source + 1, :, :length]


def _zeros(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return zeros; on a CPU, memory is allocated lazily on the first write."""
    if device.type != "cpu":
        return torch.zeros(shape, device=device, dtype=dtype)
    return (
        torch.from_numpy(np.zeros(math.prod(shape) * dtype.itemsize, np.uint8))
        .view(dtype)
        .view(shape)
    )


class Attention(nn.Module):
    """Grouped-query attention over the cache."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.head_dim
        self.sizes = [self.heads * self.head_dim, *[self.kv_heads * self.head_dim] * 2]
        self.qkv = nn.Linear(config.hidden_size, sum(self.sizes), bias=config.attention_bias)
        self.out = nn.Linear(self.sizes[0], config.hidden_size, bias=False)
        self.query_norm = nn.RMSNorm(self.head_dim, config.rms_norm_eps) if config.qk_norm else None
        self.key_norm = nn.RMSNorm(self.head_dim, config.rms_norm_eps) if config.qk_norm else None

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], view: "CacheView") -> Tensor:
        """Return ``[B, T, hidden]`` for ``x [B, T, hidden]``."""
        batch, length, _ = x.shape
        query, key, value = self.qkv(x).split(self.sizes, dim=-1)
        query = query.view(batch, length, self.heads, self.head_dim)
        key = key.view(batch, length, self.kv_heads, self.head_dim)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        query = rotate(query, rotation).transpose(1, 2)
        key = rotate(key, rotation).transpose(1, 2)
        value = value.view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        keys, values = view.extend(key, value)
        if length == 1:
            seen = _single_query_attention(query[:, :, 0], keys, values, view.mask)
        else:
            seen = functional.scaled_dot_product_attention(
                query,
                keys.transpose(2, 3).contiguous(),
                values,
                attn_mask=view.mask,
                is_causal=view.mask is None,
                enable_gqa=self.heads != self.kv_heads,
            ).transpose(1, 2)
        return self.out(seen.reshape(batch, length, self.sizes[0]))


def _single_query_attention(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
) -> Tensor:
    """Return attention for one query per sequence, where the fused kernel is slow.

    Args:
        query: ``[B, heads, head_dim]``.
        keys: ``[B, kv_heads, head_dim, reach]``.
        values: ``[B, kv_heads, reach, head_dim]``.
        mask: ``[B, 1, 1, reach]``, added to the scores: 0 where visible, else minus infinity;
            None if all positions are visible.
    """
    batch, kv_heads, head_dim, _ = keys.shape
    grouped = query.view(batch, kv_heads, -1, head_dim) * head_dim**-0.5
    scores = grouped @ keys
    if mask is not None:
        scores += mask
    return torch.softmax(scores, dim=-1) @ values


class CacheView:
    """Part of the cache that one forward pass writes and reads.

    Without a cache, a pass sees only its own tokens, and a `mask` of None means causal.
    """

    def __init__(
        self,
        cache: KvCache | None = None,
        *,
        rows: slice | None = None,
        positions: Tensor | None = None,
        reach: int = 0,
        mask: Tensor | None = None,
    ) -> None:
        """Create a view of a cache.

        Args:
            cache: Cache to use; None for no cache.
            rows: B consecutive sequences of the cache.
            positions: ``[B, T]``, positions of the new tokens.
            reach: Number of cache positions to attend to.
            mask: ``[B, 1, T, reach]``, added to the scores: 0 where visible, else minus infinity.
        """
        self._cache, self._rows, self._positions, self._reach = cache, rows, positions, reach
        self.mask = mask
        self.layer = 0

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write ``[B, kv_heads, T, head_dim]`` to the cache; return all visible keys and values.

        Returns:
            Keys ``[B, kv_heads, head_dim, reach]`` and values ``[B, kv_heads, reach, head_dim]``.
        """
        key = key.transpose(2, 3)
        if self._cache is None or self._positions is None:
            return key, value
        keys = self._cache.keys[self.layer, self._rows]
        values = self._cache.values[self.layer, self._rows]
        at = self._positions[:, None, None, :]
        keys.scatter_(3, at.expand(-1, *key.shape[1:3], -1), key)
        values.scatter_(2, at.transpose(2, 3).expand(-1, value.shape[1], -1, value.shape[3]), value)
        return keys[..., : self._reach], values[:, :, : self._reach]


class FeedForward(nn.Module):
    """SwiGLU feed-forward layer."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.gate_up = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[…, hidden]``."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)


class Layer(nn.Module):
    """Attention and feed-forward, each with a residual connection."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(config)
        self.feed_norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.feed = FeedForward(config)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], view: CacheView) -> Tensor:
        """Return ``[B, T, hidden]``."""
        x = x + self.attention(self.attention_norm(x), rotation, view)
        return x + self.feed(self.feed_norm(x))


class Transformer(nn.Module):
    """The complete model."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        """Initialize with random weights."""
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.head.weight = self.embed.weight
        cosines, sines = rotations(config)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=INITIAL_SPREAD)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits ``[B, T, vocab]`` for ``tokens [B, T]`` that begin at position 0."""
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return self.logits(self.hidden(tokens, positions, CacheView()))

    def hidden(self, tokens: Tensor, positions: Tensor, view: CacheView) -> Tensor:
        """Return the last layer's output ``[B, T, hidden]``, normalized.

        Args:
            tokens: ``[B, T]``.
            positions: ``[B, T]`` of each token in its sequence.
            view: Part of the cache that the tokens can attend to.
        """
        x = self.embed(tokens)
        rotation = self.cosines[positions], self.sines[positions]
        for index, layer in enumerate(self.layers):
            view.layer = index
            x = layer(x, rotation, view)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return ``[…, vocab]`` for ``hidden […, hidden]``."""
        return self.head(hidden)


def rotations(config: TransformerConfig) -> tuple[Tensor, Tensor]:
    """Return cosines and sines ``[positions, head_dim / 2]`` of the rotary embedding."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    angles = torch.outer(
        torch.arange(config.max_position_embeddings, dtype=torch.float32),
        config.rope_theta**-half,
    )
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Return ``x [B, T, heads, head_dim]``, its two halves rotated as pairs (Llama's layout)."""
    cosines, sines = (part.unsqueeze(2).to(x.dtype) for part in rotation)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)
