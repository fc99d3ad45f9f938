"""Why settings of the smaller scales differ from the papers', where the reason is the same in every study."""

from __future__ import annotations

_MODEL = "a smaller model, which trains in minutes on two CPU cores"
_FOLLOWS = "follows from the shorter inputs and the smaller alphabet"
_MINUTES = "so many that a run takes minutes on two CPU cores"
_RATE = "a small model trained for few steps takes a larger one"
_INPUTS = "shorter inputs, on which a small model and few steps are enough"

AT_SMALL_SCALE: dict[str, str] = {
    **dict.fromkeys(
        ("model.d_model", "model.d_head", "model.d_mlp", "model.n_heads", "model.n_kv_heads", "model.n_layers"), _MODEL
    ),
    **dict.fromkeys(
        ("model.d_vocab", "model.n_ctx", "model.heads.successor", "model.heads.count", "model.heads.fill"), _FOLLOWS
    ),
    **dict.fromkeys(("steps", "warmup"), _MINUTES),
    "batch_size": "with the steps, so many examples that a run takes minutes on two CPU cores",
    "learning_rate": _RATE,
    "schedule": "one cycle, with which few steps go furthest",
    "beta2": "forgets sooner, as few steps need it",
    "weight_decay": "none, as in the other models here, which are trained on sequences that are drawn anew",
    "train_size": "every batch is drawn anew; where a task has few different questions, each comes again and again",
    "stop_on": "no run of this study stops early",
    "model.dropout": "none, as in the other models here",
    "model.activation": "GELU and its approximation by tanh differ by less than 0.001",
    "model.tied": "untied, so that what is read on one basis is not read on the other for that reason alone",
    "model.positions": "rotary, with which few steps learn how far back a clause stands",
    "model.unembed_bias": "none, as in the other models here",
    "model.attention.beta": "1 / log of the median training length, which is shorter here",
    "objectives.seq_vcr.layer": "null is the logits, as the paper has it for small vocabularies; -1 is for GPT-2",
    "objectives.seq_vcr.projection": "on the logits, which need no projection",
    **dict.fromkeys(("task.n", "task.k", "task.q", "task.digits", "task.operators", "task.length"), _INPUTS),
    **dict.fromkeys(
        ("task.n_boxes", "task.n_objects", "task.capacity", "task.min_operations", "task.max_operations"), _INPUTS
    ),
    **dict.fromkeys(("task.max_length", "task.test_max_length", "task.values", "task.p"), _INPUTS),
    "task.min_operators": "shorter expressions too, from which longer ones are learnt",
    "task.skew": "every training length is as likely: with few steps rare lengths are hardly seen",
    "task.repetition": "a tenth of the training sequences repeat symbols, as in the paper's modified training set",
    "task.reading": "the root alone is the answer: learnt in fewer steps; published accuracies are of another measure",
}
AT_DAY_SCALE: dict[str, str] = {
    **AT_SMALL_SCALE,
    "bucket_steps": "sequences of like length together, which leaves little padding",
    "model.initial_std.embedding": "about 1, as Flax, the paper's library, begins; with 0.02 wide models stay behind",
    "model.initial_std.unembedding": "with the wider model, one over the square root of its width",
}
_NARROWER = "a smaller model, of which several seeds fit into the minutes"
_FEWER = "one or two alone, so that several seeds of each fit into the minutes"
AT_GPU_SCALE: dict[str, str] = {
    "steps": "so few that all runs, side by side, take about ten minutes of one GPU",
    "warmup": "as short as the steps are few",
    "precision": "faster on a GPU; the ChaCAL paper says mixed precision, and not which",
    "batch_size": "with the steps, so many examples that all runs take about ten minutes",
    "bucket_steps": "batches of sequences of like length: a third of the padded tokens or less",
    "learning_rate": "so few steps take a larger one",
    "schedule": "one cycle, with which few steps go furthest",
    "train_size": "every batch is drawn anew; where a task has few different questions, each comes again and again",
    **dict.fromkeys(("model.d_model", "model.d_head", "model.d_mlp", "model.n_heads"), _NARROWER),
    **dict.fromkeys(("model.n_layers", "task.operators", "task.length"), _FEWER),
    "task.digits": "four, as in the smaller size of Table 1, of which more models learn something in minutes",
    "model.n_ctx": "follows from the shorter inputs",
    **dict.fromkeys(
        ("model.initial_std.embedding", "model.initial_std.unembedding"),
        "with larger embeddings a model of this width sorts as far beyond its lengths as wide ones do",
    ),
    **dict.fromkeys(
        ("objectives.seq_vcr.layer", "objectives.seq_vcr.projection"),
        "the first layer itself: from scratch it succeeds where the last one fails, its authors report",
    ),
}
"""Setting -> why it differs."""
