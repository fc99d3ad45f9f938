"""Questions that this library and TransformerLens both answer of a language model, each in the way of each.

A question is two functions of the same model on the same tokens, which give the same numbers; `bench_language_model`
times them side by side, `tests/models/test_same_numbers_as_transformer_lens` holds one against the other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformer_lens import ActivationCache, patching
from transformer_lens.head_detector import HEAD_NAMES, detect_head

from workbench.capture import Subject, capture
from workbench.circuits import Comparison, activation_patching, direct_logit_attribution
from workbench.instruments.attention import head_roles
from workbench.instruments.lens import logit_lens
from workbench.models.pretrained import Pretrained
from workbench.tasks import Pairs, own_sequences
from workbench.tasks.prompt_sets import prompts

ROLES = tuple(name.removesuffix(" head") for name in (head.replace("_", " ") for head in HEAD_NAMES))


@dataclass(frozen=True)
class Asked:
    """A model, and what it is asked on: a few different random tokens twice, up to one before the end.

    Attributes:
        model: the model.
        pairs: of these, with another token after the first occurrence of the last in the corrupted ones.
    """

    model: Pretrained
    pairs: Pairs

    @staticmethod
    def of(model: Pretrained, n: int, length: int = 12, seed: int = 0) -> Asked:
        half, draws = length // 2, torch.Generator().manual_seed(seed)
        drawn = torch.stack([torch.randperm(model.config.d_vocab - 2, generator=draws)[: half + 1] for _ in range(n)])
        first, other = drawn[:, :half], drawn[:, half]
        clean = torch.cat([first, first[:, : half - 1]], dim=1)
        corrupted = clean.clone()
        corrupted[:, half - 1] = other
        sides = [
            prompts(list(rows), ids.tolist(), model.pad) for rows, ids in ((clean, first[:, -1]), (corrupted, other))
        ]
        clean_side, corrupted_side = sides
        return Asked(model, Pairs(clean_side, corrupted_side, clean_side.loss_mask, "last token", pad=-1))

    @property
    def tokens(self) -> Tensor:
        return self.pairs.clean.tokens

    @property
    def comparison(self) -> Comparison:
        return Comparison(self.model.hooked(), self.pairs)


Question = tuple[Callable[[Asked], Tensor], Callable[[Asked], Tensor]]
"""The numbers of this library, and TransformerLens's."""


def roles(asked: Asked) -> Tensor:
    """`[role, layer, head]`: TransformerLens divides by all queries, and ours is of those that have such a key."""
    sequences = own_sequences(asked.tokens, asked.model.config.d_vocab, pad=-1)
    subject = Subject.of(asked.model, sequences, "model")
    batch = sequences.sample(len(asked.tokens), torch.Generator().manual_seed(0))
    seen = capture(asked.model.hooked(), subject, batch, head_roles.needs(subject))
    measured, keys = head_roles.measure(seen), head_roles.role_keys(seen)
    shares = [torch.from_numpy(measured.select(role=role).values) for role in ROLES]
    return torch.stack(
        [(each * keys[role].any(-1).double().mean(-1)).mean(-1) for role, each in zip(ROLES, shares, strict=True)]
    )


def roles_there(asked: Asked) -> Tensor:
    hooked = asked.model.hooked()
    scores = []
    for row in asked.tokens:
        model: Any = SimpleNamespace(
            cfg=hooked.cfg, to_tokens=lambda _, row=row: row[None], run_with_cache=hooked.run_with_cache
        )
        cache = hooked.run_with_cache(row[None], remove_batch_dim=True)[1]
        scores.append(torch.stack([detect_head(model, "", name, cache=cache) for name in HEAD_NAMES]))
    return torch.stack(scores).mean(0).double()


def lens(asked: Asked) -> Tensor:
    """`[point, example, token]`: what the residual before every layer, and the last one, decodes to at the end."""
    model = asked.model
    sequences = own_sequences(asked.tokens, model.config.d_vocab, pad=-1)
    subject, n = Subject.of(model, sequences, "model"), model.config.n_layers
    points = [f"blocks.{i}.hook_resid_pre" for i in range(n)] + [f"blocks.{n - 1}.hook_resid_post"]
    _, kept = model.hooked().run_with_cache(asked.tokens, names_filter=points)
    return torch.stack([logit_lens.decode(subject, kept[point][:, -1]) for point in points])


def lens_there(asked: Asked) -> Tensor:
    hooked = asked.model.hooked()
    cache: ActivationCache = hooked.run_with_cache(asked.tokens)[1]
    stack: Any = cache.accumulated_resid(pos_slice=-1)
    normed = cache.apply_ln_to_stack(stack, layer=asked.model.config.n_layers, pos_slice=-1, recompute_ln=True)
    return normed @ hooked.W_U + hooked.b_U


def direct(asked: Asked) -> Tensor:
    """`[head, example]`: what each head writes straight into the logit difference."""
    measured, cfg = direct_logit_attribution(asked.comparison), asked.model.config
    named = [f"a{layer}.h{head}" for layer in range(cfg.n_layers) for head in range(cfg.n_heads)]
    rows = [measured.coords["part"].index(part) for part in named]
    return torch.from_numpy(measured.values[rows])


def direct_there(asked: Asked) -> Tensor:
    """TransformerLens leaves out the final norm's weight, which it expects folded into `W_U`: here it is, in a copy."""
    hooked, pairs = copy.deepcopy(asked.model).hooked(), asked.pairs
    hooked.process_weights(fold_ln=True, center_writing_weights=False, center_unembed=False, fold_value_biases=False)
    cache: ActivationCache = hooked.run_with_cache(asked.tokens)[1]
    right, wrong = (targets[pairs.asked] for targets in (pairs.right, pairs.wrong))
    stack: Any = cache.stack_head_results(pos_slice=-1)
    return cache.logit_attrs(stack, tokens=right, incorrect_tokens=wrong, pos_slice=-1)


def patched(asked: Asked) -> Tensor:
    """`[layer, position]`: the mean logit difference when what attention writes there is that of the clean run."""
    comparison = asked.comparison
    return torch.from_numpy(activation_patching(comparison, "attn_out").mean().values + comparison.baselines[1].mean())


def patched_there(asked: Asked) -> Tensor:
    hooked, pairs = asked.model.hooked(), asked.pairs
    cache: ActivationCache = hooked.run_with_cache(asked.tokens)[1]
    right, wrong = (targets[pairs.asked] for targets in (pairs.right, pairs.wrong))
    rows = torch.arange(len(right))

    def metric(logits: Tensor) -> Tensor:
        last = logits[:, -1]
        return (last[rows, right] - last[rows, wrong]).mean()

    return patching.get_act_patch_attn_out(hooked, pairs.corrupted.tokens, cache, metric).double()


QUESTIONS: dict[str, Question] = {
    "previous-token, duplicate-token and induction scores of all heads": (roles, roles_there),
    "logit lens": (lens, lens_there),
    "direct logit attribution of all heads": (direct, direct_there),
    "patching what attention writes": (patched, patched_there),
}
