"""A decoder-only transformer in plain PyTorch, of the sizes whose memory is measured."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Shape:
    """A model: `gated` is a feed-forward layer of three matrices (SwiGLU), otherwise of two (GELU).

    The matrix of the vocabulary is shared by input and output.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int = 50304
    positions: int = 0
    gated: bool = False

    @property
    def head(self) -> int:
        return self.hidden // self.heads


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("gpt-125m", 12, 768, 12, 12, 3072, positions=4096),
        Shape("gpt-350m", 24, 1024, 16, 16, 4096, positions=4096),
        Shape("gpt-1.3b", 24, 2048, 16, 16, 8192, positions=4096),
        Shape("gqa-1.2b", 16, 2048, 32, 8, 8192, vocabulary=128256, gated=True),
    )
}


@dataclass
class Cache:
    """Keys and values of one layer for `batch` sequences of at most `context` tokens."""

    keys: Tensor
    values: Tensor

    @classmethod
    def of(cls, shape: Shape, batch: int, context: int, dtype: torch.dtype) -> Cache:
        size = (batch, shape.kv_heads, context, shape.head)
        return cls(*(torch.zeros(size, dtype=dtype, device="cuda") for _ in range(2)))

    @property
    def bytes(self) -> int:
        return 2 * self.keys.numel() * self.keys.element_size()


class Block(nn.Module):
    """Attention and feed-forward layer, each after a norm and with a residual."""

    def __init__(self, shape: Shape, attention: str) -> None:
        super().__init__()
        self.shape, self.attention = shape, attention
        norm = nn.RMSNorm if shape.gated else nn.LayerNorm
        self.norm1, self.norm2 = norm(shape.hidden), norm(shape.hidden)
        bias = not shape.gated
        self.qkv = nn.Linear(shape.hidden, (shape.heads + 2 * shape.kv_heads) * shape.head, bias=bias)
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=bias)
        self.up = nn.Linear(shape.hidden, shape.feed_forward * (2 if shape.gated else 1), bias=bias)
        self.down = nn.Linear(shape.feed_forward, shape.hidden, bias=bias)

    def attend(self, x: Tensor, cache: Cache | None, start: int) -> Tensor:
        shape = self.shape
        batch, length, _ = x.shape
        sizes = [shape.heads * shape.head, *[shape.kv_heads * shape.head] * 2]
        query, key, value = (
            part.view(batch, length, -1, shape.head).transpose(1, 2)
            for part in self.qkv(x).split(sizes, dim=-1)
        )
        if cache is not None:
            cache.keys[:, :, start : start + length] = key
            cache.values[:, :, start : start + length] = value
            key, value = cache.keys[:, :, : start + length], cache.values[:, :, : start + length]
        if self.attention == "math":
            scores = query @ key.transpose(-2, -1) / shape.head**0.5
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1).to(value.dtype) @ value
        else:
            mixed = functional.scaled_dot_product_attention(
                query, key, value, is_causal=length > 1, enable_gqa=shape.kv_heads != shape.heads
            )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, shape.hidden))

    def forward(self, x: Tensor, cache: Cache | None = None, start: int = 0) -> Tensor:
        x = x + self.attend(self.norm1(x), cache, start)
        up = self.up(self.norm2(x))
        if self.shape.gated:
            gate, up = up.chunk(2, dim=-1)
            return x + self.down(functional.silu(gate) * up)
        return x + self.down(functional.gelu(up))


class Transformer(nn.Module):
    """The model. Its positions are learned, or none (the memory of rotary ones is negligible)."""

    def __init__(self, shape: Shape, *, checkpoints: bool = False, attention: str = "sdpa") -> None:
        super().__init__()
        self.shape, self.checkpoints = shape, checkpoints
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.positions, shape.hidden) if shape.positions else None
        self.blocks = nn.ModuleList(Block(shape, attention) for _ in range(shape.layers))
        self.norm = (nn.RMSNorm if shape.gated else nn.LayerNorm)(shape.hidden)

    def forward(self, tokens: Tensor, caches: list[Cache] | None = None, start: int = 0) -> Tensor:
        """Return the logits: of all tokens, or with caches of the last one."""
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(start, start + tokens.shape[1], device=tokens.device))
        for index, block in enumerate(self.blocks):
            if self.checkpoints:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x, caches[index] if caches else None, start)
        if caches is not None:
            x = x[:, -1:]
        return functional.linear(self.norm(x), self.tokens.weight)

    def loss(self, tokens: Tensor) -> Tensor:
        logits = self(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def parameters(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def flops_of_step(shape: Shape, count: int, batch: int, length: int) -> float:
    """Operations of one training step: 6 a parameter and token, and those of attention's two products.

    Attention counts the full square of the sequence, as Megatron-LM and PaLM's model FLOP utilisation do.
    """
    tokens = batch * length
    return 6.0 * count * tokens + 12.0 * shape.layers * shape.hidden * length * tokens
