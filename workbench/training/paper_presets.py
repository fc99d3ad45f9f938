"""The papers' own configurations, as presets named `paper/…`. Each takes hours on a GPU, or days on a CPU.

Beside each is where it is stated; what its paper leaves open is named there, and is then the default of the workbench,
or the value given in the comment. How often something is logged, evaluated or saved is not the papers' (`_SELDOM`), and
neither are the sizes of test sets, which are for whoever tests. GPT-2 on OpenWebText (ChaCAL, §5.3) needs a text and
pretrained weights, and is no preset.
"""

from __future__ import annotations

from typing import Any

from workbench.util.settings import merge

_SELDOM: dict[str, Any] = {"log_every": 100, "eval_every": 1000, "save_every": 1000}
_NEXT_TOKEN: dict[str, Any] = {"objectives": {"next_token": {}}, **_SELDOM}

# What an optimizer's name stands for where the paper gives no more than the name: Adam's own β2; PyTorch's AdamW.
_ADAM: dict[str, Any] = {"beta2": 0.999, "weight_decay": 0.0}
_ADAMW: dict[str, Any] = {"beta2": 0.999, "weight_decay": 0.01}

# ChaCAL (Fagnou et al. 2024). "Chain and Causal Attention for Efficient Entity Tracking", Table 4, and §5: GPT-2's
# architecture, so tied embeddings (with them alone Table 1's sizes are met) and learned positions; γ = 0.9; no dropout.
# Open: the schedule after the warm-up (cosine here), gradient clipping, which half precision "mixed precision" is.
_CHACAL: dict[str, Any] = {"variant": "chacal", "gamma": 0.9}
_FAGNOU: dict[str, Any] = {
    **_NEXT_TOKEN,
    "model": {
        "d_model": 512,
        "n_heads": 8,
        "d_mlp": 2048,
        "tied": True,
        "positions": "learned",
        "activation": "gelu_tanh",
        "dropout": 0.0,
    },
    "learning_rate": 3e-4,
    "beta2": 0.98,
}
# §5.1, Tables 1 and 4, Figures 3 and 5; fresh data always; 4 seeds. Standard attention has 1 to 5 layers, of which this
# is the first (--model.n_layers 5). Open: what exactly is predicted, and the values of the first block; `chain` is
# the reading nearest to Table 1 (see the task).
_CHAIN: dict[str, Any] = merge(
    _FAGNOU,
    {
        "task": {"name": "pointer_chain", "n": 128, "k": 8, "reading": "chain"},
        "model": {"n_layers": 1, "attention": "standard"},
        "batch_size": 128,
        "weight_decay": 0.0,
        "steps": 24_000,
        "warmup": 8_000,
    },
)
# §5.2, Tables 2 and 4, Figure 4; 3 seeds (default) and 4 (advanced). Standard attention has 2 to 5 layers, of which
# this is the first. Training sets of 500,000 and 1,000,000 examples as the text has it; Table 4 swaps the two. Open:
# how the data are drawn (see the task). Table 2's sizes are those of Table 1, with 128 positions; these sequences are
# longer.
_BOXES: dict[str, Any] = merge(
    _FAGNOU,
    {
        "task": {"name": "boxes", "style": "default", "ask": "all"},
        "model": {"n_layers": 2, "attention": "standard"},
        "train_size": 500_000,
        "batch_size": 256,
        "weight_decay": 0.01,
        "steps": 25_000,
        "warmup": 2_000,
    },
)
_ADVANCED: dict[str, Any] = merge(_BOXES, {"task": {"style": "advanced"}, "train_size": 1_000_000})
_THEN_CHACAL: dict[str, Any] = {"model": {"attention": ["standard", _CHACAL]}}

# Task hinting (Awasthi and Gupta 2023), §3 and Appendix B, Tables 4 and 5: a linear warm-up of 10 epochs, then one
# cosine cycle. The unembedding has a bias (§4). Of 1,000,000 examples 10 epochs are the warm-up below; of the 160
# million of Tables 1 and 2 they would be longer than training, which then sees less than one epoch: fresh data. Open:
# the warm-up there, gradient clipping, initial weights.
_AWASTHI: dict[str, Any] = {
    **_NEXT_TOKEN,
    **_ADAM,
    "model": {
        "d_model": 1024,
        "n_heads": 16,
        "d_mlp": 2048,
        "n_ctx": 512,
        "positions": "none",
        "activation": "gelu",
        "dropout": 0.0,
        "unembed_bias": True,
        "attention": "standard",
    },
    "learning_rate": 1e-5,
    "batch_size": 1024,
    "steps": 100_000,
    "schedule": "cosine",
    "warmup": 10 * 1_000_000 // 1024,
}
# §3, Tables 1 and 2 (160 million examples), tested at lengths 50 and 100. Figure 3.3 has depths 4, 8 and 12 too. The
# modified set of 92.6 % has 10 % of sequences with repetitions: --task.repetition 0.1. The 103rd token is not named.
_SORT: dict[str, Any] = merge(
    _AWASTHI,
    {
        "task": {
            "name": "sorting",
            "q": 100,
            "min_length": 2,
            "max_length": 20,
            "test_max_length": 100,
            "skew": "paper",
            "repetition": 0.0,
        },
        "model": {"n_layers": 2},
    },
)
# §3.1: gradient updates on the main task and on the hint in turns. Open: what follows a symbol that has copies ("the
# element that follows in the sorted sequence", so itself) and the largest one. Figure 3.10 has --task.hints count and
# fill, Figure 3.11 all three.
_SUCCESSOR: dict[str, Any] = {"task": {"hints": ["successor"], "copies": "itself"}, "mixing": "alternate"}
# §5: "the tempered softmax at each attention layer (with each its own learnable β)". Open: n, and β's first value.
_TEMPERED: dict[str, Any] = {"model": {"attention": "tempered"}}
# §6, Table 3 (lengths 11 to 20) and Table 5; 1,000,000 examples. Open: batch and steps (as for sorting here), the
# 14th token.
_INCREMENT: dict[str, Any] = merge(
    _AWASTHI,
    {
        "task": {
            "name": "increment",
            "min_length": 2,
            "max_length": 10,
            "test_max_length": 20,
            "skew": "paper",
            "nines": 0.1,
            "reversed": True,
        },
        "model": {"n_layers": 4},
        "train_size": 1_000_000,
    },
)
_CARRY: dict[str, Any] = {"task": {"hints": ["carry"]}, "mixing": "alternate"}

# Seq-VCR (Arefin et al. 2025), §4.2 and Table 1: GPT-2 small, 40 epochs of 808,000 examples (Table 3). The paper
# fine-tunes pretrained weights; here they are fresh, and the vocabulary is the task's. Two pause tokens (§4.4). Open:
# schedule, dropout, weight decay.
_MULTIPLY: dict[str, Any] = {
    **_NEXT_TOKEN,
    **_ADAMW,
    "task": {"name": "multiplication", "digits": 4},
    "model": {
        "n_layers": 12,
        "d_model": 768,
        "n_heads": 12,
        "tied": True,
        "positions": "learned",
        "activation": "gelu_tanh",
    },
    "train_size": 808_000,
    "learning_rate": 5e-4,
    "batch_size": 32,
    "steps": 40 * 808_000 // 32,
}
# §4.2 and Table 2: minGPT from scratch, 4 to 6 layers (Figure 7: 5), 100 epochs of 1,000,000 examples (Table 3). Open:
# width (256 is that of the data's authors, Feng et al. 2023), schedule, weight decay.
_MINGPT: dict[str, Any] = {
    **_NEXT_TOKEN,
    **_ADAMW,
    "model": {
        "n_layers": 5,
        "d_model": 256,
        "n_heads": 4,
        "dropout": 0.1,
        "positions": "learned",
        "activation": "gelu_tanh",
    },
    "train_size": 1_000_000,
    "learning_rate": 1e-4,
    "batch_size": 128,
    "steps": 100 * 1_000_000 // 128,
}
# §4.1 and Table 3, whose tokens of thought are met where every operation is bracketed. §4.6 names the best number of
# pause tokens for 5 operators (7) and for LIS of length 80 (4); it is open for the others.
_ARITHMETIC: dict[str, Any] = merge(
    _MINGPT, {"task": {"name": "arithmetic", "p": 11, "operators": 4, "brackets": "always"}}
)
_LIS: dict[str, Any] = merge(_MINGPT, {"task": {"name": "lis", "length": 50, "values": 250}})

# §3.4: on the logits, or of GPT-2 on a projection to 2048 of the last residual. Open: η, and λ1 and λ2, which are those
# of a later version of the paper. It reports that from scratch a covariance for each position of the last layer fails
# on 5 × 5 digits, where --objectives.seq_vcr.over batch+length or --objectives.seq_vcr.layer 0 succeeds. Open too:
# whether GPT-2's last residual is taken before its final norm (here) or after it (at ln_final.hook_out).
_PROJECTED: dict[str, Any] = {"variance_weight": 1.0, "covariance_weight": 0.004, "layer": -1, "projection": 2048}
_OF_LOGITS: dict[str, Any] = {"variance_weight": 0.1, "covariance_weight": 0.5, "at": "logits"}


def _five(name: str, base: dict[str, Any], n_pause: int, seq_vcr: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The five configurations of one task that the Seq-VCR paper compares (§4.2)."""
    pause = {"task": {"mode": "pause", "n_pause": n_pause}}
    regularised = {"objectives": {"seq_vcr": seq_vcr}}
    changes = {
        "vanilla": {},
        "pause": pause,
        "seqvcr": regularised,
        "seqvcr-pause": {**pause, **regularised},
        "cot": {"task": {"mode": "chain_of_thought"}},
    }
    return {f"{name}-{kind}": merge(base, change) for kind, change in changes.items()}


PAPER_PRESETS: dict[str, dict[str, Any]] = {
    "paper/chain-standard": _CHAIN,
    "paper/chain-chacal": merge(_CHAIN, {"model": {"attention": _CHACAL}}),
    "paper/boxes-default": _BOXES,
    "paper/boxes-default-chacal": merge(_BOXES, _THEN_CHACAL),
    "paper/boxes-advanced": _ADVANCED,
    "paper/boxes-advanced-chacal": merge(_ADVANCED, _THEN_CHACAL),
    "paper/sort": _SORT,
    "paper/sort-tempered": merge(_SORT, _TEMPERED),
    "paper/sort-hints": merge(_SORT, _SUCCESSOR),
    "paper/sort-hints-tempered": merge(_SORT, {**_SUCCESSOR, **_TEMPERED}),
    "paper/increment": _INCREMENT,
    "paper/increment-hints": merge(_INCREMENT, _CARRY),
    "paper/increment-tempered": merge(_INCREMENT, _TEMPERED),
    **_five("paper/multiply-4", _MULTIPLY, 2, _PROJECTED),
    **_five("paper/multiply-5", merge(_MULTIPLY, {"task": {"digits": 5}}), 2, _PROJECTED),
    **_five("paper/arithmetic-4", _ARITHMETIC, 7, _OF_LOGITS),
    **_five("paper/arithmetic-5", merge(_ARITHMETIC, {"task": {"operators": 5}}), 7, _OF_LOGITS),
    **_five("paper/arithmetic-6", merge(_ARITHMETIC, {"task": {"operators": 6}}), 7, _OF_LOGITS),
    **_five("paper/lis-50", _LIS, 4, _OF_LOGITS),
    **_five("paper/lis-80", merge(_LIS, {"task": {"length": 80}}), 4, _OF_LOGITS),
    **_five("paper/lis-100", merge(_LIS, {"task": {"length": 100}}), 4, _OF_LOGITS),
}
