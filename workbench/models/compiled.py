"""Compiled models: weights written by hand, so that what every instrument and mechanism must find is known.

`sorter` is the depth-two sorter of Theorem 5.1 (the task-hinting paper), with its slips mended; `chaser` is
one layer of ChaCAL that follows pointers to the end of their chain. Both are ordinary `Decoder`s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.models.config import DecoderConfig
from workbench.models.decoder import Decoder
from workbench.models.layers import Layer, MultiHeadAttention
from workbench.models.norms_and_mlps import NORMS
from workbench.util.seeds import generator

# The constants of the construction; with them it is exact for every multiset of up to 255 symbols.
BETA = 3.0  # τ = β ln n, n the query's 1-based position
OWN, DELIMITER = 8.0, 24.0  # layer 0: how much a symbol looks for its own kind, and for ⊥ once that is there
COPIES = 4.0  # layer 1: how much for its copies; not more, since what is rounded there is exponentiated with it
NEXT = 0.5  # of the next larger symbol: half the token's own 1, so that the two peaks are told apart
SHARP = 60.0  # score of the chaser's one right key; the others together get less than n e^−60


def sorter(
    q: int,
    rotate_seed: int | None = None,
    n_ctx: int = 512,
    *,
    form: Literal["plain", "layernorm"] = "plain",
    pad: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Decoder:
    """The depth-two sorter: `x_1 … x_n ⊥` is continued by the same symbols in order, exactly.

    Tokens 0 … q−1 are the symbols in order, q is ⊥. The residual has three blocks of V = q + 1 coordinates: E (the
    token), T (what was seen before ⊥), D (what to put out). Two heads a layer:

    - layer 0, head 0: a symbol reads its copies, or ⊥ once that is there, into T; head 1: ⊥ reads the minimum, an
      output itself, into D. Its MLP writes −T_b −T_⊥ at an output b: what stands behind ⊥ counts negatively.
    - layer 1, head 0: an output reads T of its copies into D: how many of the input's are not put out yet, as a share;
      head 1: an output reads the next larger symbol into D. The two largest in D are now the token itself and the next
      one. Its MLP takes the token itself out of D, which leaves it there only while copies are left.

    Args:
        q: number of symbols.
        rotate_seed: turn the residual's basis by a random rotation of this seed: the same function, and nothing along
            an axis. None leaves it.
        n_ctx: longest sequence, at most 512: up to there it was found to be exact.
        form: `layernorm` has every norm of an ordinary decoder (§A.7): each coordinate is there a second time with the
            opposite sign, so that centring changes nothing, and lengths are known where a threshold depends on them.
        pad: have a token for padding, q + 1, of which nothing is said or read.
        dtype: of the weights.

    Raises:
        ValueError: if q is below 2 or n_ctx not within 3 … 512.
    """
    if q < 2:
        raise ValueError(f"the sorter needs q >= 2 symbols, not {q}")
    if not 3 <= n_ctx <= 512:
        raise ValueError(f"the sorter is exact for an n_ctx from 3 to 512, not {n_ctx}")
    V, layernorm = q + 1, form == "layernorm"
    model = Decoder(_sorter_shape(q, n_ctx, layernorm=layernorm, pad=pad)).to(dtype)
    _write_sorter(Writer(model, Blocks(V, rotation(3 * V, rotate_seed), doubled=layernorm)), q, n_ctx)
    return model.eval()


def _sorter_shape(q: int, n_ctx: int, *, layernorm: bool, pad: bool) -> DecoderConfig:
    V = q + 1
    return DecoderConfig(
        n_layers=2,
        d_model=3 * V * (2 if layernorm else 1),
        n_heads=2,
        d_head=V,
        d_mlp=q,
        d_vocab=V + pad,
        n_ctx=n_ctx,
        attention={"variant": "tempered", "beta": BETA, "n": "position"},
        positions="none",
        activation="relu",
        norm="layernorm" if layernorm else "none",
    )


@torch.no_grad()
def _write_sorter(write: Writer, q: int, n_ctx: int) -> None:
    """The sorter's weights, part by part as `sorter` describes them.

    Three things differ from the paper (Appendix A). Values are written where its text says they are read. The count of
    copies stays divided by the sum of its row, so it is written n_ctx times as large: one copy among n symbols is at
    least 1/(2n − 1) of a row, and then outweighs the 1/2 of the next symbol. Scores are not divided by √d_head.
    """
    E, T, D = write.blocks.coordinates
    V, symbols, delimiter = q + 1, torch.arange(q), q
    eye = torch.eye(V, dtype=torch.float64)
    only_symbols, own = eye.clone(), OWN * eye
    only_symbols[delimiter, delimiter] = 0
    ranks = (q - torch.arange(V, dtype=torch.float64)).masked_fill(torch.arange(V) == delimiter, 0)  # smallest, highest

    write.embedding(E)
    write.unembedding(D)

    # Layer 0, head 0: a symbol looks for its copies, and more for ⊥. Rows are what is looked for, columns by whom.
    first_own = own.clone()
    first_own[delimiter, symbols] = DELIMITER
    write.head(0, 0, query=first_own @ E, key=E, reads=E, writes=T)
    # Layer 0, head 1: ⊥ looks for the smallest symbol.
    smallest = own.clone()
    smallest[:, delimiter] = ranks
    write.head(0, 1, query=smallest @ E, key=E, reads=only_symbols @ E, writes=D)
    # MLP 0: behind ⊥ both E_b and T_⊥ are 1, elsewhere at most one of them: 2 · 2 − 3 = 1, 2 · 1 − 3 < 0
    write.mlp(0, reads=2 * (E[symbols] + T[delimiter]), threshold=3.0, writes=-T[symbols] - T[delimiter])

    # Layer 1, head 0: copies in the input less copies in the output.
    write.head(1, 0, query=COPIES * E, key=E, reads=only_symbols @ T, writes=n_ctx * D)
    # Layer 1, head 1: an output looks for larger symbols, most of all for the next one.
    larger = ranks[:, None] * (torch.arange(V)[:, None] > torch.arange(V)[None, :])
    larger[delimiter, delimiter] = COPIES
    write.head(1, 1, query=larger @ E, key=E, reads=only_symbols @ E, writes=NEXT * D)
    # MLP 1: no copies left, so the token itself is taken out.
    write.mlp(1, reads=-T[symbols], threshold=0.0, writes=-D[symbols])


def chaser(
    n: int, k: int, rotate_seed: int | None = None, *, gamma: float = 0.9, reading: Literal["chain", "root"] = "chain"
) -> Decoder:
    """One layer of ChaCAL, one head, that solves the pointer chain: n tokens in blocks of k, each pointing one back.

    Every position attends to the one its token names, those of the first block to themselves. The layer then holds at a
    position i with ancestors p_1, p_2, …, p_d the sum (1−γ) Σ_h γ^(h−1) v(p_h) (ChaCAL, Eq. 5). For `chain`, v is the
    position itself, so that the chain has the only logits above zero. For `root`, v(j) is the token of j less 1/γ of
    its position: since the token of p_h is p_(h+1), the sum telescopes to the root's value and −(1−γ)/γ of p_1, which
    the token itself takes away. The residual has three blocks of n coordinates: the token, the position, and what is
    read.

    Args:
        n, k: as in the task `pointer_chain`, whose vocabulary it has.
        rotate_seed: turn the residual's basis by a random rotation of this seed. None leaves it.
        gamma: γ in (0, 1).
        reading: what it says, as in the task.

    Raises:
        ValueError: if n is not at least two blocks of k, or γ not in (0, 1).
    """
    if k < 1 or n % k or n < 2 * k:
        raise ValueError(f"the chaser needs n to be at least 2 whole blocks of k, not n={n}, k={k}")
    if not 0 < gamma < 1:
        raise ValueError(f"the chaser follows chains by 0 < gamma < 1, not {gamma}")
    shape = DecoderConfig(
        n_layers=1,
        d_model=3 * n,
        n_heads=1,
        d_head=n,
        d_mlp=1,
        d_vocab=n,
        n_ctx=n,
        attention={"variant": "chacal", "gamma": gamma},
        norm="none",
        activation="relu",
    )
    model = Decoder(shape)
    _write_chaser(Writer(model, Blocks(n, rotation(3 * n, rotate_seed), doubled=False)), n, k, gamma, reading)
    return model.eval()


@torch.no_grad()
def _write_chaser(write: Writer, n: int, k: int, gamma: float, reading: Literal["chain", "root"]) -> None:
    """The chaser's weights, as `chaser` describes them."""
    token, position, out = write.blocks.coordinates
    write.embedding(token)
    write.positions(position)
    # A token looks for the position that it names, a position of the first block for itself: with twice the weight, so
    # that this outweighs whatever the token says.
    first = (torch.arange(n) < k).double().diag()
    query = SHARP * (token + 2 * first @ position)
    if reading == "chain":
        write.head(0, 0, query=query, key=position, reads=position, writes=out)
        write.unembedding(out)
    else:
        write.head(0, 0, query=query, key=position, reads=token - position / gamma, writes=out)
        write.unembedding(out + (1 - gamma) / gamma * token)


def rotation(d: int, seed: int | None) -> Float[Tensor, "d d"]:
    """A random rotation (Haar), or the identity; float64."""
    if seed is None:
        return torch.eye(d, dtype=torch.float64)
    gaussian = torch.randn(d, d, generator=generator(seed, "rotation"), dtype=torch.float64)
    turn, upper = torch.linalg.qr(gaussian)
    return turn * upper.diagonal().sign()


@dataclass(frozen=True)
class Blocks:
    """A residual stream of three blocks of equal size, in whatever basis: one row a coordinate.

    Attributes:
        size: coordinates in a block.
        basis: orthogonal, `[3 size, 3 size]`, a row for each coordinate.
        doubled: whether everything is there a second time with the opposite sign.
    """

    size: int
    basis: Float[Tensor, "all all"]
    doubled: bool

    @property
    def coordinates(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each block's directions, `[size, 3 size]`."""
        first, second, third = self.basis.split(self.size)
        return first, second, third

    def written(self, directions: Float[Tensor, "n all"]) -> Float[Tensor, "n d_model"]:
        """Directions as rows of a weight that writes to the residual."""
        return torch.cat([directions, -directions], dim=-1) if self.doubled else directions

    def read(self, directions: Float[Tensor, "n all"]) -> Float[Tensor, "n d_model"]:
        """Directions as rows of a weight that reads from the residual: halved where coordinates are there twice."""
        return self.written(directions) / (2 if self.doubled else 1)

    def norm_scale(self, squares: float) -> float:
        """The factor of a layer norm for a residual whose coordinates' squares have this sum."""
        return (squares / len(self.basis) + NORMS["layernorm"].eps) ** -0.5 if self.doubled else 1.0


SQUARES_BEFORE_MLP = (3.0, 4.0)  # E, T and D are one each; then D has the next symbol beside the token itself
SQUARES_BEFORE_ATTENTION = (1.0, 3.0)


@dataclass(frozen=True)
class Writer:
    """Writes a decoder's weights in terms of directions, `[n, 3 size]`, in float64; all others become 0."""

    model: Decoder
    blocks: Blocks

    @torch.no_grad()
    def __post_init__(self) -> None:
        for name, parameter in self.model.named_parameters():
            if not name.endswith(("beta", "ln1.weight", "ln2.weight", "final_norm.weight")):
                parameter.zero_()

    def embedding(self, directions: Tensor) -> None:
        """What each token writes; tokens beyond these write nothing."""
        self.model.token_embedding.weight[: len(directions)] = self.blocks.written(directions)

    def positions(self, directions: Tensor) -> None:
        assert isinstance(self.model.position_embedding, nn.Embedding)
        self.model.position_embedding.weight.copy_(self.blocks.written(directions))

    def unembedding(self, directions: Tensor) -> None:
        self.model.unembedding.weight[: len(directions)] = self.blocks.read(directions)

    def head(self, layer: int, head: int, *, query: Tensor, key: Tensor, reads: Tensor, writes: Tensor) -> None:
        """One head: scores are ⟨query x, key y⟩; row i of `reads` is written to row i of `writes`.

        Heads of a group (grouped queries) share `key` and `reads`: those of the last one written are those of all.
        """
        attention: MultiHeadAttention = self._layer(layer).attn
        size, group = len(query), head // attention.group
        rows, shared = (slice(number * size, (number + 1) * size) for number in (head, group))
        scale = self.blocks.norm_scale(SQUARES_BEFORE_ATTENTION[layer])
        attention.q.weight[rows] = self.blocks.read(query) * size**0.5 / scale
        attention.k.weight[shared] = self.blocks.read(key) / scale
        attention.v.weight[shared] = self.blocks.read(reads) / scale
        attention.o.weight[:, rows] = self.blocks.written(writes).T

    def mlp(self, layer: int, *, reads: Tensor, threshold: float, writes: Tensor) -> None:
        """One neuron a row: relu(⟨reads, x⟩ − threshold) times `writes`."""
        mlp = self._layer(layer).mlp
        assert mlp is not None
        scale = self.blocks.norm_scale(SQUARES_BEFORE_MLP[layer])
        mlp.fc_in.weight.copy_(self.blocks.read(reads) / scale)
        mlp.fc_in.bias.fill_(-threshold)
        mlp.fc_out.weight.copy_(self.blocks.written(writes).T)

    def _layer(self, layer: int) -> Layer:
        module = self.model.layers[layer]
        assert isinstance(module, Layer)
        return module
