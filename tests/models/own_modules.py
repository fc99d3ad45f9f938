"""Small decoders as other people write them: they know nothing of this library."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models import ModuleKind, Parts

VOCABULARY, WIDTH, CONTEXT = 50, 32, 24


class RMSNorm(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Fused(nn.Module):
    """Grouped queries, by PyTorch's own function."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads, self.groups = heads, heads // 2
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = nn.Linear(d, d // 2, bias=False), nn.Linear(d, d // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            y.unflatten(-1, (n, -1)).transpose(1, 2)
            for y, n in ((self.q(x), self.heads), (self.k(x), self.groups), (self.v(x), self.groups))
        )
        z = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(z.transpose(1, 2).flatten(2))


class Softmax(nn.Module):
    """Scores, mask and softmax written out, with the mask as a buffer that is saved."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.o = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril())

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        n_pos = x.shape[1]
        z = self.shares(scores.masked_fill(~self.mask[:n_pos, :n_pos], -torch.inf)) @ v
        return self.o(z.transpose(1, 2).flatten(2))

    def shares(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)


class Unseen(Softmax):
    """A softmax by hand: nothing shows where the pattern is."""

    def shares(self, scores: Tensor) -> Tensor:
        raised = (scores - scores.amax(-1, keepdim=True)).exp()
        return raised / raised.sum(-1, keepdim=True)


class Library(nn.Module):
    """PyTorch's multi-head attention."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(d, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        n_pos = x.shape[1]
        mask = torch.ones(n_pos, n_pos, dtype=torch.bool).triu(1)
        return self.inner(x, x, x, attn_mask=mask, need_weights=False)[0]


class Gated(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, d: int, heads: int, attention: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.norm1, self.attention = RMSNorm(d), attention(d, heads)
        self.norm2, self.feed_forward = RMSNorm(d), Gated(d)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class ScaledBlock(Block):
    """One that halves what it puts out: there is no residual stream to read."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 2


class Language(nn.Module):
    """A decoder with RMSNorm; its logits are the first of a tuple. Embedding and unembedding may be tied."""

    def __init__(
        self,
        attention: Callable[[int, int], nn.Module] = Fused,
        *,
        vocabulary: int = VOCABULARY,
        layers: int = 2,
        heads: int = 4,
        tied: bool = False,
        block: type[Block] = Block,
    ) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList(block(WIDTH, heads, attention) for _ in range(layers))
        self.norm, self.output = RMSNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)
        if tied:
            self.output.weight = self.tok.weight

    def forward(self, tokens: Tensor) -> tuple[Tensor]:
        x = self.tok(tokens)
        for layer in self.layers:
            x = layer(x)
        return (self.output(self.norm(x)),)


class Encoder(nn.Module):
    """PyTorch's own encoder layers under a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.tok = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, norm_first=True, dropout=0.1) for _ in range(2)
        )
        self.norm, self.output = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x, mask = self.tok(tokens), nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.output(self.norm(x))


ENDS = {"embed": "tok", "blocks": "layers", "final_norm": "norm", "unembed": "output"}
PARTS = Parts(attn="attention", mlp="feed_forward", **ENDS)
KINDS = {
    "fused": ModuleKind(Language, PARTS),
    "softmax": ModuleKind(lambda: Language(Softmax), PARTS),
    "tied": ModuleKind(lambda: Language(Softmax, tied=True), PARTS),
    "library": ModuleKind(lambda: Language(Library), PARTS),
    "encoder": ModuleKind(Encoder, Parts(attn="dropout1", attention="self_attn", mlp="dropout2", **ENDS)),
    "unseen": ModuleKind(lambda: Language(Unseen), PARTS),
}
