"""What every attention variant must do, whatever it computes; each check takes a variant's name with its settings.

Queries, keys and values here are float64 of 2 sequences, 3 heads, 9 positions, 4 dimensions; models have two layers and
weights far from their gentle start, so that an error in a rarely used path is not too small to be seen.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION, Attention
from workbench.models.hooked import hook
from workbench.models.layers import Layer, MultiHeadAttention
from workbench.models.norms_and_mlps import NORMS
from workbench.models.positions import POSITIONS
from workbench.testing.require import ContractError, NotTested, require, require_close

LENGTH = 9
VOCABULARY = 13
MOST_TERMS = 3000  # of a sum over steps; ChaCAL's are negligible long before
CUTS = ([1] * LENGTH, [4, 5], [1, 7, 1], [LENGTH])  # pieces in which a sequence may come


@dataclass(frozen=True)
class Variant:
    """A variant with its settings."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def layer(self, dtype: torch.dtype = torch.float64) -> Attention:
        return ATTENTION[self.name](**self.settings).to(dtype)

    def model(self, **shape: Any) -> Decoder:
        """A small decoder with all its weights, biases too, far from their start."""
        wanted = {"n_layers": 2, "d_model": 24, "n_heads": 3, "d_head": 5, "d_vocab": VOCABULARY, "n_ctx": 16, **shape}
        generator = torch.Generator().manual_seed(1)
        decoder = Decoder(DecoderConfig(attention={"variant": self.name, **self.settings}, **wanted), generator)
        with torch.no_grad():
            for parameter in decoder.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
        return decoder.eval()


def queries_keys_values(dtype: torch.dtype = torch.float64, pos: int = LENGTH) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, pos, 4, dtype=dtype, generator=generator) for _ in range(3)]


def some_tokens(batch: int = 3, pos: int = LENGTH) -> Tensor:
    return torch.randint(0, VOCABULARY, (batch, pos), generator=torch.Generator().manual_seed(2))


def a_pattern_looks_back_only(variant: Variant) -> None:
    """A pattern has no weight on later keys, none below 0, and no NaN; fewer queries than keys are the last ones."""
    layer, (q, k, _) = variant.layer(), queries_keys_values()
    pattern = layer.pattern(q, k)
    expected = [2, 3, LENGTH, LENGTH]
    require(list(pattern.shape) == expected, f"pattern(q, k) is [batch, head, query, key], not {list(pattern.shape)}")
    require(bool(pattern.isfinite().all()), "the pattern has NaN or infinite weights")
    require(torch.equal(pattern, pattern.tril()), "a query has weight on a later key: it sees what it predicts")
    require(bool((pattern >= 0).all()), f"the pattern has a negative weight, {pattern.min().item():.3g}")
    words = "the pattern of the last 4 queries is not the last 4 rows of the whole pattern"
    require_close(layer.pattern(q[:, :, -4:], k), pattern[:, :, -4:], words, 1e-12)


def the_fast_path_reads_the_pattern(variant: Variant) -> None:
    """`mix` equals `read` of `pattern`, in double and in single precision."""
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        layer, (q, k, v) = variant.layer(dtype), queries_keys_values(dtype)
        words = f"mix(q, k, v) is not read(pattern(q, k), v) in {str(dtype).removeprefix('torch.')}"
        require_close(layer.mix(q, k, v), layer.read(layer.pattern(q, k), v), words, tolerance)


def reading_is_linear(variant: Variant) -> None:
    """What is read is the mixing matrix times the values."""
    layer, (q, k, v) = variant.layer(), queries_keys_values()
    pattern = layer.pattern(q, k)
    words = "read(pattern, v) is not mixing_matrix(pattern) @ v: it must be linear in v"
    require_close(layer.read(pattern, v), layer.mixing_matrix(pattern) @ v, words, 1e-10)


def rows_sum_to_one_if_it_says_so(variant: Variant) -> None:
    """Rows of the mixing matrix sum to 1 where `passes_constants` says so."""
    layer, (q, k, _) = variant.layer(), queries_keys_values()
    rows = layer.mixing_matrix(layer.pattern(q, k)).sum(-1)
    if not layer.passes_constants:
        raise NotTested(f"{variant.name} does not claim it: passes_constants is False")
    require_close(rows, torch.ones_like(rows), "passes_constants is True, but rows do not sum to 1", 1e-6)


def terms_sum_to_what_is_read(variant: Variant) -> None:
    """The terms by steps sum to the mixing matrix, and their mean number of steps is `path_length`."""
    layer, (q, k, _) = variant.layer(), queries_keys_values()
    pattern = layer.pattern(q, k)
    if layer.why_no_steps:
        for asked in (layer.weighted_by_steps, layer.path_length, lambda A: list(layer.step_terms(A))):
            try:
                asked(pattern)
            except ValueError:
                continue
            raise ContractError(f"steps are unknown ({layer.why_no_steps}), and yet they are told")
        return
    terms, matrix = list(islice(layer.step_terms(pattern), MOST_TERMS)), layer.mixing_matrix(pattern)
    require_close(torch.stack(terms).sum(0), matrix, "step_terms do not sum to the mixing matrix", 1e-9, 1e-9)
    weighted = torch.stack([steps * term for steps, term in enumerate(terms, 1)]).sum(0)
    words = "weighted_by_steps is not the sum of each term of step_terms times its number of steps"
    require_close(layer.weighted_by_steps(pattern), weighted, words, 1e-7, 1e-7)
    words = "path_length is not the mean number of steps of what each query reads"
    require_close(layer.path_length(pattern), weighted.sum(-1) / matrix.sum(-1), words, 1e-7, 1e-7)


def steps_are_what_they_say(variant: Variant) -> None:
    """Along a chain, where each position points at the one before, the term of h steps reads what is h back."""
    layer, chain = variant.layer(), torch.diag(torch.ones(6, dtype=torch.float64), -1)[None, None]
    if layer.why_no_steps:
        raise NotTested(layer.why_no_steps)
    back = torch.arange(7)[:, None] - torch.arange(7)
    read = layer.mixing_matrix(chain)[0, 0]
    require(not read[back == 0].any(), "a position reads itself, where the pattern points at the one before it alone")
    for steps, term in enumerate(islice(layer.step_terms(chain), 7), 1):
        words = f"the term of {steps} steps reads what is not {steps} back"
        require_close(term[0, 0], torch.where(back == steps, read, 0.0), words, 1e-9)


@torch.no_grad()
def decoding_in_pieces(variant: Variant) -> None:
    """`extend` in pieces, of any sizes, equals `mix` at once; new tokens may be at different positions (`at`)."""
    layer, (q, k, v) = variant.layer(), queries_keys_values()
    for cuts in CUTS:
        memory = torch.full((2, 3, LENGTH, layer.memory_width(4)), torch.nan, dtype=torch.float64)
        ends = [sum(cuts[: i + 1]) for i in range(len(cuts))]
        pieces = [slice(start, end) for start, end in pairwise([0, *ends])]
        read = [
            layer.extend(q[:, :, new], k[:, :, : new.stop], v[:, :, new], memory[:, :, : new.stop]) for new in pieces
        ]
        words = f"extend in pieces of {cuts} positions is not mix at once"
        require_close(torch.cat(read, dim=-2), layer.mix(q, k, v), words, 1e-12)
    memory, at = torch.zeros(2, 3, LENGTH, layer.memory_width(4), dtype=torch.float64), torch.tensor([4, 7])
    layer.extend(q[:, :, :7], k[:, :, :7], v[:, :, :7], memory[:, :, :7])  # the first has 4 tokens, then padding
    one_q, one_v = (x[torch.arange(2), :, at].unsqueeze(2) for x in (q, v))
    z = layer.extend(one_q, k[:, :, :8], one_v, memory[:, :, :8], at)
    words = "extend with at=[4, 7] is not what mix reads at these positions"
    require_close(z[:, :, 0], layer.mix(q, k, v)[torch.arange(2), :, at], words, 1e-12)


def gradients_are_right(variant: Variant) -> None:
    """The gradients of both paths are those of finite differences."""
    layer = variant.layer()
    inputs = [x[:1, :1, :5].requires_grad_() for x in queries_keys_values()]
    paths = {"mix": layer.mix, "read(pattern)": lambda q, k, v: layer.read(layer.pattern(q, k), v)}
    for name, path in paths.items():
        try:
            torch.autograd.gradcheck(path, inputs)
        except RuntimeError as error:
            raise ContractError(f"the gradient of {name} is not that of finite differences: {error}") from None


def the_future_changes_nothing(variant: Variant) -> None:
    """In a model, a later token never changes an earlier logit."""
    decoder, first = variant.model(), some_tokens()
    second = first.clone()
    second[:, 6:] = (second[:, 6:] + 1) % VOCABULARY
    a, b = decoder(first), decoder(second)
    require_close(a[:, :6], b[:, :6], "tokens from position 6 on change logits before it", 1e-6)
    require(not torch.allclose(a[:, 6:], b[:, 6:], atol=1e-3), "other tokens have the same logits")


def cached_generation(variant: Variant) -> None:
    """What is read with a cache, in chunks or as prompts of different lengths, equals recomputing everything.

    In float64, so that rounding does not choose between two tokens of nearly the same logit.
    """
    for positions in POSITIONS:
        decoder, prompt = variant.model(positions=positions, d_head=6).double(), some_tokens(pos=4)
        expected = prompt
        for _ in range(12):
            expected = torch.cat([expected, decoder(expected)[:, -1:].argmax(-1)], dim=1)
        words = f"generate, with positions={positions}, writes other tokens than the model without a cache"
        require(torch.equal(decoder.generate(prompt, 12), expected), words)
        prompts = [row[:length] for row, length in zip(some_tokens(4, 8), (8, 1, 5, 5), strict=True)]
        for alone, row in zip(prompts, decoder.generate(prompts, 8), strict=True):
            words = f"a prompt of {len(alone)} tokens is continued otherwise beside longer ones than alone"
            require(torch.equal(row, decoder.generate(alone[None], 8)[0]), words)
    decoder, whole = variant.model().double(), some_tokens(pos=16)
    logits = decoder(whole)
    for cuts in ([16], [1] * 16, [7, 9], [5, 1, 1, 6, 3]):
        cache = decoder.cache(3)
        read = torch.cat([decoder.extend(chunk, cache) for chunk in whole.split(cuts, dim=1)], dim=1)
        require_close(read, logits, f"read in chunks of {cuts} tokens, the logits are others", 1e-10, 1e-10)


def hooked_logits_are_the_bare_ones(variant: Variant) -> None:
    """The hooked model has the logits of the bare one, whatever its norm and positions."""
    for norm in NORMS:
        for positions in POSITIONS:
            shape = {"norm": norm, "positions": positions, "tied": norm == "none", "unembed_bias": norm != "none"}
            decoder = variant.model(d_head=6, **shape)
            bare = decoder(some_tokens())
            scale = bare.abs().max().clamp(min=1)
            hooked = hook(decoder)(some_tokens())
            require_close(hooked / scale, bare / scale, f"hooked and bare logits differ with {shape}", 1e-5)


def an_edit_of_the_pattern_counts(variant: Variant) -> None:
    """The pattern that is seen is the variant's, and an edit of it changes what is read."""
    decoder = variant.model()
    hooked, layer = hook(decoder), cast(MultiHeadAttention, cast(Layer, decoder.layers[1]).attn)
    _, cache = hooked.run_with_cache(some_tokens())
    q, k = _queries_and_keys(hooked, 1)
    v, seen = cache["blocks.1.attn.hook_v"].transpose(1, 2), cache["blocks.1.attn.hook_pattern"]
    require_close(seen, layer.variant.pattern(q, k), "hook_pattern is not the variant's pattern", 1e-6, 1e-5)
    with hooked.hooks([("blocks.1.attn.hook_pattern", lambda pattern, hook: pattern / 2)]):
        _, edited = hooked.run_with_cache(some_tokens(), names_filter="blocks.1.attn.o.hook_out")
    expected = layer.merge(layer.variant.read(seen / 2, v))
    words = "half the pattern, set at hook_pattern, is not what the layer then reads"
    require_close(edited["blocks.1.attn.o.hook_out"], expected, words, 1e-5, 1e-5)


def edited_scores_count_or_are_refused(variant: Variant) -> None:
    """Edited scores change the pattern as they say; where no pattern comes from scores, an edit is refused."""
    decoder, at = variant.model(), "blocks.0.attn.hook_attn_scores"
    hooked, own = hook(decoder), decoder.attention[0]
    scores = hooked.run_with_cache(some_tokens())[1][at]
    doubled: list[Any] = [(at, lambda scores, hook: 2 * scores)]
    if bool(scores.isnan().all()):  # the bridge says so of a pattern that does not come from scores
        try:
            hooked.run_with_hooks(some_tokens(), fwd_hooks=doubled)
        except ValueError:
            return
        raise ContractError("the pattern does not come from scores, and an edit of scores is not refused")
    require_close(scores, own.scores(*_queries_and_keys(hooked)), "hook_attn_scores are not the variant's", 1e-5, 1e-5)
    with hooked.hooks(doubled):
        _, edited = hooked.run_with_cache(some_tokens())
    given = own.scores
    own.scores = lambda *taken, **how: 2 * given(*taken, **how)  # type: ignore[method-assign]
    try:
        expected = own.pattern(*_queries_and_keys(hooked))
    finally:
        del own.scores
    words = "doubled scores, set at hook_attn_scores, do not make the pattern of doubled scores"
    require_close(edited["blocks.0.attn.hook_pattern"], expected, words, 1e-5, 1e-5)


def _queries_and_keys(hooked: Any, layer: int = 0) -> tuple[Tensor, Tensor]:
    """What a layer's variant computes its pattern of: the hooked queries, scaled by their inputs' lengths, and keys."""
    cache, variant = hooked.run_with_cache(some_tokens())[1], hooked.blocks[layer].attn.variant
    q, k = (cache[f"blocks.{layer}.attn.hook_{part}"].transpose(1, 2) for part in "qk")
    return variant.scale_by_input(q, variant.input_lengths(some_tokens())), k


def models_gradients_are_finite(variant: Variant) -> None:
    """Every parameter of a model gets a finite gradient."""
    decoder = variant.model()
    decoder(some_tokens()).logsumexp(-1).sum().backward()
    for name, parameter in decoder.named_parameters():
        require(parameter.grad is not None, f"{name} gets no gradient")
        require(
            parameter.grad is not None and bool(parameter.grad.isfinite().all()),
            f"the gradient of {name} is not finite",
        )


def weights_survive_a_file(variant: Variant) -> None:
    """A model that is saved and loaded has the same logits, bit by bit."""
    decoder = variant.model()
    with tempfile.TemporaryDirectory() as folder:
        save_file(decoder.state_dict(), Path(folder) / "weights.safetensors")
        again = Decoder(decoder.config).eval()
        again.load_state_dict(load_file(Path(folder) / "weights.safetensors"))
    require(torch.equal(again(some_tokens()), decoder(some_tokens())), "the loaded model has other logits")


def half_precision_is_close(variant: Variant) -> None:
    """In bfloat16 a model's logits are bfloat16 and close to those of float32."""
    decoder = variant.model()
    with torch.autocast("cpu", torch.bfloat16):
        half = decoder(some_tokens())
    full = decoder(some_tokens())
    require(half.dtype == torch.bfloat16, f"under autocast the logits are {half.dtype}, not bfloat16")
    apart, scale = (half.float() - full).abs().max().item(), full.abs().max().item()
    require(apart < 0.15 * scale, f"bfloat16 logits differ by {apart:.3g} from logits of up to {scale:.3g}")


CHECKS = (
    a_pattern_looks_back_only,
    the_fast_path_reads_the_pattern,
    reading_is_linear,
    rows_sum_to_one_if_it_says_so,
    terms_sum_to_what_is_read,
    steps_are_what_they_say,
    decoding_in_pieces,
    gradients_are_right,
    the_future_changes_nothing,
    cached_generation,
    hooked_logits_are_the_bare_ones,
    an_edit_of_the_pattern_counts,
    edited_scores_count_or_are_refused,
    models_gradients_are_finite,
    weights_survive_a_file,
    half_precision_is_close,
)
