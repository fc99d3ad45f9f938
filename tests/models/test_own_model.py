"""Modules of one's own: their parts found, their activations seen, edits of these felt, and what is refused."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest
import torch
from torch import Tensor
from transformer_lens import patching

from tests.models.own_modules import (
    CONTEXT,
    KINDS,
    PARTS,
    VOCABULARY,
    WIDTH,
    Block,
    Encoder,
    Fused,
    Language,
    Library,
    ScaledBlock,
    Softmax,
)
from workbench.models import ModuleKind, OwnModel, Parts
from workbench.models.facts import logits_of
from workbench.util.seeds import generator

SEEN = [name for name in KINDS if name != "unseen"]


def made(kind: str) -> OwnModel:
    module = KINDS[kind].fresh({}, generator(1, kind))
    return OwnModel(module, KINDS[kind].parts, CONTEXT, name=kind)


def tokens(n: int = 5, length: int = 17) -> Tensor:
    return torch.randint(VOCABULARY, (n, length), generator=generator(0, "tokens"))


@torch.no_grad()
def captured(model: OwnModel, given: Tensor) -> dict[str, Tensor]:
    seen: dict[str, Tensor] = {}
    hooked = model.hooked()
    with hooked.hooks(fwd_hooks=[(name, lambda x, hook: seen.update({hook.name: x})) for name in hooked.hook_dict]):
        hooked(given)
    return seen


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_hooked_module_computes_what_the_module_does_and_leaves_it_alone(kind: str) -> None:
    module = KINDS[kind].fresh({}, generator(1, kind)).eval()
    given = tokens()
    before = logits_of(module(given))
    model = OwnModel(module, KINDS[kind].parts, CONTEXT)
    torch.testing.assert_close(model.hooked()(given), before, atol=1e-5, rtol=1e-5)
    assert torch.equal(logits_of(module(given)), before)


def test_a_module_in_training_goes_on_training() -> None:
    module = KINDS["encoder"].fresh({}, generator(1, "encoder")).train()
    model = OwnModel(module, KINDS["encoder"].parts, CONTEXT)
    assert all(part.training for part in module.modules()) and not model.training
    with torch.no_grad():
        module.output.weight.zero_()
    assert model.unembedding.weight.abs().sum() > 0, "it is a copy"


@torch.no_grad()
def test_two_threads_at_once_see_all_of_pytorchs_own_layers() -> None:
    """The one that ends first must not let the other skip submodules; afterwards PyTorch's switch is as it was."""
    inside, ended = {"first": Event(), "last": Event()}, Event()
    seen: dict[str, set[str]] = {"first": set(), "last": set()}

    def run(who: str, awaited: Event) -> None:
        hooked, names = made("encoder").hooked(), seen[who]

        def wait(x: Tensor, hook: Any) -> None:
            inside[who].set()
            assert awaited.wait(30)

        watch = [(name, lambda x, hook: names.add(hook.name)) for name in hooked.hook_dict]
        with torch.no_grad(), hooked.hooks(fwd_hooks=[("hook_embed", wait), *watch]):
            hooked(tokens())

    first = Thread(target=run, args=("first", inside["last"]))
    last = Thread(target=run, args=("last", ended))
    first.start()
    assert inside["first"].wait(30)
    last.start()
    first.join()
    ended.set()
    last.join()
    assert seen["first"] == seen["last"] and "blocks.1.attn.hook_pattern" in seen["last"]
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("kind", KINDS)
def test_the_residual_is_the_sum_of_what_is_written_to_it(kind: str) -> None:
    seen = captured(made(kind), tokens())
    x = seen["hook_embed"]
    for layer in range(2):
        at = f"blocks.{layer}.hook_"
        torch.testing.assert_close(seen[at + "resid_pre"], x)
        x = x + seen[at + "attn_out"]
        torch.testing.assert_close(seen[at + "resid_mid"], x)
        x = x + seen[at + "mlp_out"]
        torch.testing.assert_close(seen[at + "resid_post"], x, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", SEEN)
def test_the_pattern_is_a_causal_distribution_of_every_head(kind: str) -> None:
    model = made(kind)
    assert model.config.n_heads == 4 and model.facts.no_pattern is None
    pattern = captured(model, tokens())["blocks.1.attn.hook_pattern"]
    assert pattern.shape == (5, 4, 17, 17) and not pattern.triu(1).any()
    torch.testing.assert_close(pattern.sum(-1), torch.ones(5, 4, 17))


def test_the_pattern_is_the_softmax_that_the_module_takes() -> None:
    """Against the same attention written out: grouped queries share keys and values."""
    model = made("fused")
    seen = captured(model, tokens())
    block: Any = model.blocks[0]
    x = block.norm1(seen["hook_embed"])
    q, k = block.attention.q(x).unflatten(-1, (4, 8)), block.attention.k(x).unflatten(-1, (2, 8))
    k = torch.stack([k[:, :, 0], k[:, :, 0], k[:, :, 1], k[:, :, 1]], dim=2)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5
    scores = scores.masked_fill(torch.ones(17, 17, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(seen["blocks.0.attn.hook_pattern"], scores.softmax(-1))
    torch.testing.assert_close(seen["blocks.0.attn.hook_k"], k)


@pytest.mark.parametrize("kind", SEEN)
@torch.no_grad()
def test_an_edit_of_the_pattern_changes_what_is_read(kind: str) -> None:
    """Attention to itself alone: then no position depends on any other."""
    hooked, given = made(kind).hooked(), tokens()
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(2)]
    with hooked.hooks(fwd_hooks=[(name, lambda x, hook: torch.eye(x.shape[-1]).expand_as(x)) for name in names]):
        alone = hooked(given)
        torch.testing.assert_close(alone[:, 3:4], hooked(given[:, 3:4]), atol=1e-5, rtol=1e-4)
    assert (alone - hooked(given)).abs().max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_an_edit_between_attention_and_mlp_goes_on_with_the_residual(kind: str) -> None:
    """Replaced by the residual of other tokens there, the rest of the forward pass is that of those tokens."""
    model, given = made(kind), tokens()
    other = captured(model, given.flip(1))
    hooked = model.hooked()
    edit = ("blocks.1.hook_resid_mid", lambda x, hook: other["blocks.1.hook_resid_mid"])
    with hooked.hooks(fwd_hooks=[edit]):
        torch.testing.assert_close(hooked(given), other["unembed.hook_out"], atol=1e-5, rtol=1e-5)


def test_where_no_pattern_is_seen_the_reason_is_told() -> None:
    model = made("unseen")
    assert not model.config.pattern
    assert model.facts.no_pattern is not None and "layer 0" in model.facts.no_pattern


class Turned(Softmax):
    """Scores and softmax over `[batch, query, head, key]`."""

    def shares(self, scores: Tensor) -> Tensor:
        return scores.transpose(1, 2).softmax(-1).transpose(1, 2)


class OverQueries(Softmax):
    def shares(self, scores: Tensor) -> Tensor:
        return scores.mT.softmax(-2).mT


class Differential(Softmax):
    def shares(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1) - 0.5 * (2 * scores).softmax(-1)


class Rescaled(Softmax):
    """Shares below a bound are cut, and the rest sums to 1 again."""

    def shares(self, scores: Tensor) -> Tensor:
        shares = scores.softmax(-1)
        kept = shares * (shares > 0.03)  # below 1 / CONTEXT, so that no row is left empty
        return kept / kept.sum(-1, keepdim=True)


class Talking(Softmax):
    """Heads are mixed behind the softmax."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__(d, heads)
        self.mix = torch.nn.Parameter(torch.rand(heads, heads))

    def shares(self, scores: Tensor) -> Tensor:
        return torch.einsum("bhqk,hg->bgqk", scores.softmax(-1), self.mix)


class Sink(Softmax):
    """One more score, of nothing, which is left out behind the softmax."""

    def shares(self, scores: Tensor) -> Tensor:
        return torch.cat([scores, torch.zeros_like(scores[..., :1])], dim=-1).softmax(-1)[..., :-1]


class Twice(Fused):
    """Early and late heads, each by a call of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return (super().forward(x) + super().forward(-x)) / 2


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        (Turned, "later positions"),
        (OverQueries, "do not sum to 1"),
        (Differential, "takes 2 softmaxes"),
        (Rescaled, "changed before the values"),
        (Talking, "changed before the values"),
        (Sink, r"\[2, 4, 24, 25\]"),
        (Twice, "takes 2 softmaxes"),
    ],
)
@pytest.mark.parametrize("heads", [4, 8])
def test_a_softmax_that_is_not_the_pattern_is_not_shown_as_one(attention: Any, said: str, heads: int) -> None:
    """As many heads as positions, the shape alone does not tell."""
    model = OwnModel(Language(attention, heads=heads), PARTS, CONTEXT if heads == 4 else 8)
    assert not model.config.pattern and model.config.n_heads == 1
    assert model.facts.no_pattern is not None
    found = model.facts.no_pattern
    said = r"\[2, 8, 8, 9\]" if attention is Sink and heads == 8 else said
    said = r"\[2, 24, 4, 24\]" if attention is Turned and heads == 4 else said
    assert re.search(f"layer 0: .*{said}", found), found


class Einsum(Softmax):
    """A cast, a copy and an einsum between softmax and values; no other code of attention is as common."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (self.heads, -1)) for y in self.qkv(x).chunk(3, -1))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        n_pos = x.shape[1]
        shares = torch.softmax(scores.masked_fill(~self.mask[:n_pos, :n_pos], -1e9).float(), dim=-1).to(x.dtype)
        shares = torch.nn.functional.dropout(shares, 0.1, training=self.training).contiguous()
        return self.o(torch.einsum("bhqk,bkhd->bqhd", shares, v).flatten(2))


class Flat(Softmax):
    """Heads and batch in one dimension, as `bmm` wants them."""

    def shares(self, scores: Tensor) -> Any:
        flat = scores.softmax(-1).flatten(0, 1)

        class Values:
            def __matmul__(self, v: Tensor) -> Tensor:
                return torch.bmm(flat, v.flatten(0, 1)).unflatten(0, scores.shape[:2])

        return Values()


@pytest.mark.parametrize("attention", [Einsum, Flat])
def test_a_pattern_that_is_cast_copied_or_reshaped_on_its_way_to_the_values_is_seen(attention: Any) -> None:
    model = OwnModel(Language(attention), PARTS, CONTEXT)
    assert model.config.pattern and model.config.n_heads == 4, model.facts.no_pattern


class HeadFirst(Softmax):
    """Scores and softmax over `[head, batch, query, key]`."""

    def shares(self, scores: Tensor) -> Tensor:
        return scores.transpose(0, 1).softmax(-1).transpose(0, 1)


class OneRow(Fused):
    """Heads and sequences in one dimension of the library's function."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            y.unflatten(-1, (n, -1)).transpose(1, 2).repeat_interleave(self.heads // n, 1).flatten(0, 1)[None]
            for y, n in ((self.q(x), self.heads), (self.k(x), self.groups), (self.v(x), self.groups))
        )
        z = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(z[0].unflatten(0, (len(x), self.heads)).transpose(1, 2).flatten(2))


class TwoHops(Softmax):
    def shares(self, scores: Tensor) -> Any:
        shares = scores.softmax(-1)

        class Values:
            def __matmul__(self, v: Tensor) -> Tensor:
                return shares @ (shares @ v)

        return Values()


class LessMean(Softmax):
    """What differs from the mean over heads is read, beside something that the pattern multiplies too."""

    def shares(self, scores: Tensor) -> Any:
        shares = scores.softmax(-1)

        class Values:
            def __matmul__(self, v: Tensor) -> Tensor:
                return shares @ torch.ones_like(v) + (shares - shares.mean(1, keepdim=True)) @ v

        return Values()


class FarWindow(Softmax):
    """Beyond 40 tokens what is far away is cut, and the rest sums to 1 again."""

    def shares(self, scores: Tensor) -> Tensor:
        shares = scores.softmax(-1)
        if shares.shape[-1] <= 40:
            return shares
        near = shares.triu(-39)
        return near / near.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        (HeadFirst, r"\[4, 2, 24, 24\] for 2 of 24 tokens"),
        (OneRow, r"\[1, 8, 24, 24\] for 2 of 24 tokens"),
        (TwoHops, "or multiplies something else too"),
        (LessMean, "changed before the values"),
    ],
)
def test_a_pattern_of_another_order_or_that_is_read_otherwise_is_not_shown(attention: Any, said: str) -> None:
    model = OwnModel(Language(attention), PARTS, CONTEXT)
    assert model.facts.no_pattern is not None and re.search(said, model.facts.no_pattern), model.facts.no_pattern
    assert not [name for name in model.hooked().hook_dict if ".attn." in name], "no point is there to be edited"


def test_a_head_count_that_is_the_number_of_sequences_is_found_out() -> None:
    """Two heads of two sequences: the order of the two is told by a run of one sequence."""
    model = OwnModel(Language(HeadFirst, heads=2), PARTS, CONTEXT)
    assert model.facts.no_pattern is not None


def test_what_only_long_sequences_show_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.models.own_modules.CONTEXT", 100)
    model = OwnModel(Language(FarWindow), PARTS, 100)
    assert model.facts.no_pattern is not None and "changed before the values" in model.facts.no_pattern
    assert OwnModel(Language(FarWindow), PARTS, 40).facts.no_pattern is None


class Strict(Softmax):
    """By the library's function, without a token's own position: the first query may read nothing, and reads zeros."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(-1)
        z = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(z.transpose(1, 2).flatten(2))


@torch.no_grad()
def test_a_query_that_may_read_nothing_reads_zeros_as_in_pytorch() -> None:
    model, given = OwnModel(Language(Strict), PARTS, CONTEXT), tokens()
    assert model(given).isfinite().all()
    torch.testing.assert_close(model.hooked()(given), model(given), atol=1e-5, rtol=1e-5)


class Parallel(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm1(x)) + self.feed_forward(self.norm1(x))


class MLPFirst(Block):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.feed_forward(self.norm2(x))
        return x + self.attention(self.norm1(x))


@pytest.mark.parametrize("block", [Parallel, MLPFirst])
def test_there_is_no_residual_between_parts_that_are_side_by_side_or_the_other_way_round(block: Any) -> None:
    model = OwnModel(Language(block=block), PARTS, CONTEXT)
    assert model.facts.parallel and model.facts.no_pattern is None
    assert not [name for name in (*model.activation_names, *model.hooked().hook_dict) if "resid_mid" in name]
    assert not made("softmax").facts.parallel


class InPlace(Block):
    def forward(self, x: Tensor) -> Tensor:
        x += self.attention(self.norm1(x))
        x += self.feed_forward(self.norm2(x))
        return x


class InPlaceEverywhere(Language):
    def forward(self, tokens: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        x = self.tok(tokens)
        x *= WIDTH**0.5
        for layer in self.layers:
            x = layer(x)
        logits = self.output(self.norm(x))
        logits *= 1.0
        return (logits,)


@torch.no_grad()
def test_code_that_works_in_place_leaves_what_was_seen() -> None:
    model, given = OwnModel(InPlaceEverywhere(block=InPlace), PARTS, CONTEXT), tokens()
    seen = captured(model, given)
    torch.testing.assert_close(seen["hook_embed"], model.token_embedding(given))
    block: Any = model.blocks[0]
    x = WIDTH**0.5 * seen["hook_embed"]
    torch.testing.assert_close(seen["blocks.0.hook_resid_pre"], x)
    torch.testing.assert_close(seen["blocks.0.hook_attn_out"], block.attention(block.norm1(x)))
    torch.testing.assert_close(seen["blocks.0.hook_resid_post"], seen["blocks.1.hook_resid_pre"])


class Half(Softmax):
    """As Llama does it: softmax in float32, then cast to what the weights have."""

    def shares(self, scores: Tensor) -> Tensor:
        return torch.nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)


def test_a_softmax_in_another_precision_is_the_pattern() -> None:
    model = OwnModel(Language(Half).bfloat16(), PARTS, CONTEXT)
    assert model.facts.no_pattern is None and model.config.n_heads == 4


class Weights(Library):
    """The library's attention, whose mean weights are used."""

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        out, weights = self.inner(x, x, x, attn_mask=mask)
        return out + weights.mean(-1, keepdim=True)


class Apart(Softmax):
    """No gradient passes through it, and its output rests on it all the same."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class Silent(Language):
    @torch.no_grad()
    def forward(self, tokens: Tensor) -> tuple[Tensor]:
        return super().forward(tokens)


class Numbered(Block):
    """Called with its number first, and its residual by name."""

    def forward(self, number: int, cosines: Tensor, *, x: Tensor) -> list[Tensor]:  # type: ignore[override]
        return [super().forward(x), cosines]


class OfNumbered(Language):
    def forward(self, tokens: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        x = self.tok(tokens)
        for number, layer in enumerate(self.layers):
            x, _ = layer(number, torch.ones(3, 8), x=x)
        return {"logits": self.output(self.norm(x))}


@pytest.mark.parametrize(
    "module",
    [lambda: Language(Weights), lambda: Language(Apart), Silent, lambda: OfNumbered(block=Numbered)],
    ids=["weights", "detached", "no_grad", "called by name"],
)
@torch.no_grad()
def test_a_module_that_is_written_otherwise_is_hooked_as_any(module: Any) -> None:
    model, given = OwnModel(module(), PARTS, CONTEXT), tokens()
    assert model.facts.no_pattern is None and model.facts.watched_only == ()
    hooked, before = model.hooked(), model(given)
    torch.testing.assert_close(hooked(given), before, atol=1e-5, rtol=1e-5)
    with hooked.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", lambda x, hook: x.flip(1))]):
        assert (hooked(given) - before).abs().max() > 1e-4


class Logits(Language):
    """The language with other logits."""

    def __init__(self, change: Any, **more: Any) -> None:
        super().__init__(**more)
        self.change = change

    def forward(self, tokens: Tensor) -> Any:
        return self.change(super().forward(tokens)[0])


def masked(logits: Tensor) -> Tensor:
    logits[..., 40:] = -torch.inf
    return logits


@torch.no_grad()
def test_logits_that_are_infinite_are_the_models_own_and_no_residual_is_decoded() -> None:
    model, given = OwnModel(Logits(masked), PARTS, CONTEXT), tokens()
    torch.testing.assert_close(model.hooked()(given), model(given))
    assert model.facts.no_decoding is not None
    assert captured(model, given)["unembed.hook_out"].isfinite().all()


class SequenceFirst(Encoder):
    def __init__(self) -> None:
        super().__init__()
        for layer in self.layers:
            layer.self_attn.batch_first = False

    def forward(self, tokens: Tensor) -> Tensor:
        x, mask = (
            self.tok(tokens).transpose(0, 1),
            torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1]),
        )
        for layer in self.layers:
            x = layer(x, mask, is_causal=True)
        return self.output(self.norm(x)).transpose(0, 1)


def broken() -> Any:
    module: Any = Language()
    module.layers[1].feed_forward.up.weight.data[0, 0] = torch.nan
    return module


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (lambda: Logits(lambda x: x[:, -1:]), r"its logits are \[2, 1, 50\] for 2 sequences of 24 tokens"),
        (lambda: Logits(lambda x: x.flatten(0, 1)), r"its logits are \[48, 50\]"),
        (lambda: Logits(lambda x: x.mT), r"its logits are \[2, 50, 24\]"),
        (lambda: Logits(lambda x: {"scores": x}), "gives out dict, in which there are no logits"),
        (broken, "layers.1.feed_forward.up.weight has numbers that are NaN"),
    ],
)
def test_what_cannot_be_read_as_logits_or_has_no_numbers_is_refused_in_a_line(module: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        OwnModel(module(), PARTS, CONTEXT)
    assert "\n" not in str(raised.value)


def test_residuals_in_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match=r"block 0 is given \[24, 2, 32\], not \[batch, pos, d_model\].*batch_first"):
        OwnModel(SequenceFirst(), KINDS["encoder"].parts, CONTEXT)


def test_a_context_that_is_longer_than_the_module_takes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"it cannot be run on 2 sequences of 32 tokens: "):
        OwnModel(Language(Softmax), PARTS, 60)
    with pytest.raises(ValueError, match="n_ctx is the length of the longest sequence, 1 token or more, not 0"):
        OwnModel(Language(), PARTS, 0)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_an_edit_of_a_copied_hooked_module_is_felt_there_and_nowhere_else(kind: str) -> None:
    hooked, given = made(kind).hooked(), tokens()
    before, copied = hooked(given), copy.deepcopy(hooked)
    with copied.hooks(fwd_hooks=[("blocks.0.hook_mlp_out", lambda x, hook: 0 * x)]):
        assert (copied(given) - before).abs().max() > 0.01
        assert torch.equal(hooked(given), before)
    copied.module.output.weight.data.zero_()
    assert (copied(given) - before).abs().max() > 0.01, "it computes with its own weights"
    assert torch.equal(hooked(given), before)


@torch.no_grad()
def test_transformer_lenss_own_calls_and_patching_work_on_a_hooked_module() -> None:
    hooked, clean = made("fused").hooked(), tokens(1)
    corrupted = clean.clone()
    corrupted[0, 3] = (corrupted[0, 3] + 1) % VOCABULARY
    logits, cache = hooked.run_with_cache(clean)
    assert isinstance(logits, Tensor)

    def nearness(x: Tensor) -> Tensor:
        return -(x - logits).abs().max()

    table = patching.get_act_patch_resid_pre(hooked, corrupted, cache, nearness)
    assert table.shape == (2, 17) and table.device == hooked.cfg.device
    assert table[0, 3].abs() < 1e-5 and table[0, 4] < -0.01, "the one token that differs, patched, is the whole input"
    heads = patching.get_act_patch_attn_head_out_all_pos(hooked, corrupted, cache, nearness)
    assert heads.shape == (2, 4)


def test_layers_that_run_one_module_are_refused_by_name() -> None:
    shared = Language(layers=1)
    shared.layers.append(shared.layers[0])
    with pytest.raises(ValueError, match="layers 0 and 1 run one and the same Block"):
        OwnModel(shared, PARTS, CONTEXT)
    partly = Language()
    partly.layers[1].feed_forward = partly.layers[0].feed_forward
    with pytest.raises(ValueError, match="layers 0 and 1 run one and the same Gated"):
        OwnModel(partly, PARTS, CONTEXT)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (replace(PARTS, embed="embedding"), "Language has no 'embedding', given as embed; there is: tok, layers, norm"),
        (replace(PARTS, attn="attn"), "Block has no 'attn', given as attn; there is: norm1, attention, norm2"),
        (replace(PARTS, attn="attention.query"), "there is: q, o, k, v"),
        (replace(PARTS, unembed="norm"), "norm is no unembedding of tok"),
        (replace(PARTS, mlp="norm2"), "block 0 is not its input with what attention and norm2 write added"),
        (replace(PARTS, blocks="tok"), "tok is not a list of blocks"),
    ],
)
def test_a_part_that_is_not_there_is_named_with_what_is(parts: Parts, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        OwnModel(Language(Fused), parts, CONTEXT)


def test_blocks_that_scale_the_sum_are_refused() -> None:
    with pytest.raises(ValueError, match=r"block 0 is not its input with what .* no residual stream"):
        OwnModel(Language(block=ScaledBlock), PARTS, CONTEXT)


def test_fresh_weights_follow_from_their_generator_alone() -> None:
    kind = ModuleKind(Language, PARTS)
    state = torch.get_rng_state()
    one, same, other = (kind.fresh({}, generator(seed, "fresh")) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.tok.weight, same.tok.weight) and not torch.equal(one.tok.weight, other.tok.weight)


@torch.no_grad()
def test_it_decodes_as_the_module_would_step_by_step() -> None:
    model, prompts = made("softmax"), [tokens(1, 4)[0], tokens(1, 7)[0]]
    for prompt, whole in zip(prompts, model.generate(prompts, 3), strict=True):
        row = prompt
        for _ in range(3):
            row = torch.cat([row, model.module(row[None])[0][0, -1:].argmax(-1)])
        assert torch.equal(whole, row)
    with pytest.raises(ValueError, match="longer than the context of 24"):
        model.generate([tokens(1, 23)[0]], 2)


def test_a_module_of_another_class_may_have_its_parts_anywhere() -> None:
    """Names lead through submodules, and blocks may be under another module."""

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Language(Softmax, block=Block)

        def forward(self, given: Tensor) -> Tensor:
            return self.model(given)[0]

    ends = {"embed": "model.tok", "blocks": "model.layers", "final_norm": "model.norm", "unembed": "model.output"}
    model = OwnModel(Outer(), Parts(attn="attention", mlp="feed_forward", **ends), CONTEXT)
    assert model.config.n_layers == 2 and model.config.n_heads == 4
