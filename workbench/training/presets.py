"""Presets: configs by name, each of which learns something measurable in at most five minutes on two cores.

The papers' own configurations, which take far longer, are in `paper_presets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.runs import RunConfig, parse_config
from workbench.runs.conditions import check_condition
from workbench.runs.fit_to_task import unfitted
from workbench.training.paper_presets import PAPER_PRESETS
from workbench.util.lookup import lookup
from workbench.util.settings import merge

_TASK: dict[str, Any] = {
    "model": {"n_layers": 2, "d_model": 64, "n_heads": 4},
    "objectives": {"next_token": {}},
    "steps": 2000,
    "batch_size": 64,
    "learning_rate": 3e-3,
    "schedule": "onecycle",
}
_CHAIN: dict[str, Any] = {
    **_TASK,
    "task": {"name": "pointer_chain", "n": 32, "k": 4, "reading": "root"},
    "model": {"n_layers": 1, "d_model": 64, "n_heads": 4, "attention": "chacal"},
    "steps": 500,
    "schedule": "cosine",
}
_PROPERTIES: dict[str, Any] = {
    **_CHAIN,
    "task": {"name": "property_chain", "n": 12, "k": 3, "properties": 2},
    "model": {"n_layers": 1, "d_model": 96, "n_heads": 4, "attention": "chacal"},
    "steps": 800,
    "learning_rate": 1e-3,
}
_SORT: dict[str, Any] = {
    **_TASK,
    "task": {"name": "sorting", "q": 32, "min_length": 2, "max_length": 16, "test_max_length": 20},
    "model": {"n_layers": 2, "d_model": 64, "n_heads": 2, "positions": "none"},
    "steps": 3000,
}
_MULTIPLY: dict[str, Any] = {
    **_TASK,
    "task": {"name": "multiplication", "digits": 2},
    "model": {"n_layers": 2, "d_model": 128, "n_heads": 4},
    "steps": 1200,
    "batch_size": 256,
    "stop_on": "whole_answer",
}
_BOXES: dict[str, Any] = {
    **_TASK,
    "task": {"name": "boxes", "style": "advanced", "n_boxes": 4, "n_objects": 8, "capacity": 2, "max_operations": 6},
    "steps": 1800,
    "batch_size": 32,
}
_BOX_MOVES: dict[str, Any] = {  # the recipe of the study box-moves
    "task": {"name": "box_moves", "min_moves": 8, "max_moves": 8},
    "model": {
        "n_layers": 2,
        "d_model": 64,
        "n_heads": 4,
        "d_mlp": 128,
        "positions": "rotary",
        "initial_std": {"embedding": 0.5, "unembedding": "fan_in", "rest": "fan_in"},
    },
    "objectives": {"next_token": {}},
    "steps": 6000,
    "batch_size": 32,
    "learning_rate": 1e-3,
    "schedule": "constant",
    "warmup": 100,
    "curriculum": [{"min_moves": moves, "max_moves": moves} for moves in range(1, 8)],
    "eval_every": 100,
    "eval_size": 256,
    "stop_at": 0.998,
    "stop_on": "whole_answer",
}
_INCREMENT: dict[str, Any] = {
    **_TASK,
    "task": {"name": "increment", "max_length": 8, "test_max_length": 16, "skew": "uniform"},
    "model": {"n_layers": 4, "d_model": 64, "n_heads": 4, "positions": "none"},
    "steps": 2400,
    "learning_rate": 1e-3,
}
_ARITHMETIC: dict[str, Any] = {
    **_TASK,
    "task": {"name": "arithmetic", "p": 7, "operators": 2, "min_operators": 1},
    "steps": 4000,
    "learning_rate": 1e-3,
    "stop_on": "whole_answer",
}
_LIS: dict[str, Any] = {
    **_TASK,
    "task": {"name": "lis", "length": 16, "values": 64},
    "model": {"n_layers": 3, "d_model": 64, "n_heads": 4},
    "steps": 1500,
    "batch_size": 128,
    "learning_rate": 2e-3,
    "stop_on": "whole_answer",
}
_TEXT: dict[str, Any] = {
    **_TASK,
    "task": {"name": "text", "path": "shakespeare", "block": 64},
    "model": {"n_layers": 2, "d_model": 128, "n_heads": 4},
    "steps": 1000,
    "batch_size": 32,
    "learning_rate": 1e-3,
}
_ADDITION: dict[str, Any] = {
    "task": {"name": "modular_addition", "p": 53, "train_fraction": 0.4},
    "model": {"n_layers": 1, "d_model": 64, "n_heads": 4, "activation": "relu"},
    "objectives": {"next_token": {}},
    "steps": 3000,
    "batch_size": 512,
    "learning_rate": 3e-3,
    "schedule": "constant",
    "warmup": 10,
    "weight_decay": 1.0,
    "eval_every": 50,
    "eval_training": True,
    "stop_at": 0.99,  # once it answers, large steps throw it back now and then
    "checkpoint_every": 50,
}
_RECALL: dict[str, Any] = {"name": "associative_recall", "d_vocab": 32, "length": 24}
_PARITY: dict[str, Any] = {
    **_TASK,
    "task": {"name": "state_tracking", "states_of": "parity", "length": 16},
    "steps": 1200,
}
_S5: dict[str, Any] = {
    **_TASK,
    "task": {"name": "state_tracking", "moves": "swaps", "length": 8, "test_length": 12},
    "model": {"n_layers": 2, "d_model": 64, "n_heads": 4, "positions": "none"},
    "steps": 2500,
    "eval_conditions": True,
}
_ONE_CHACAL: dict[str, Any] = {"model": {"n_layers": 1, "attention": "chacal"}}
_SEQ_VCR_OF_EXPRESSIONS = {"seq_vcr": {"variance_weight": 0.1, "covariance_weight": 0.5}}  # and of LIS; see `SeqVCR`
_PAUSE: dict[str, Any] = {"task": {"mode": "pause"}}  # as many pauses as the paper has: 2, 7 and 4, each task's default
_THOUGHT: dict[str, Any] = {"task": {"mode": "chain_of_thought"}}


# With `copies: "itself"` the successor hint of a symbol that has copies is that symbol, as in sorting. With the next
# larger symbol as the hint instead, accuracy stays at 60 %.
_SORT_HINTS = merge(_SORT, {"task": {"hints": ["successor"], "copies": "itself"}, "steps": 4000})
_ARITHMETIC_SEQ_VCR = merge(_ARITHMETIC, {"objectives": _SEQ_VCR_OF_EXPRESSIONS})
_LIS_SEQ_VCR = merge(_LIS, {"objectives": _SEQ_VCR_OF_EXPRESSIONS})

# Beside each the seconds that it took on one core, as measured by `bench_presets.py`: an expectation, not a promise.
_TIMED: dict[str, tuple[int, dict[str, Any]]] = {
    "chain-chacal": (16, _CHAIN),
    "chain-standard": (12, merge(_CHAIN, {"model": {"attention": "standard"}})),
    "properties-chacal": (20, _PROPERTIES),
    "sort-standard": (109, _SORT),
    "sort-tempered": (104, merge(_SORT, {"model": {"attention": "tempered"}})),
    "sort-hints": (109, _SORT_HINTS),
    "sort-count": (145, merge(_SORT, {"task": {"hints": ["count"]}, "steps": 4000})),
    "sort-fill": (142, merge(_SORT, {"task": {"hints": ["fill"]}, "steps": 4000})),
    "sort-all-hints": (220, merge(_SORT_HINTS, {"task": {"hints": ["successor", "count", "fill"]}, "steps": 7000})),
    "sort-tempered-hints": (149, merge(_SORT_HINTS, {"model": {"attention": "tempered"}})),
    "multiply-vanilla": (130, _MULTIPLY),
    "multiply-seqvcr": (142, merge(_MULTIPLY, {"objectives": {"seq_vcr": {}}})),
    "multiply-pause": (195, merge(_MULTIPLY, _PAUSE)),
    "multiply-seqvcr-pause": (205, merge(_MULTIPLY, {**_PAUSE, "objectives": {"seq_vcr": {}}})),
    "multiply-cot": (104, merge(_MULTIPLY, {**_THOUGHT, "steps": 500})),
    "boxes-standard": (140, _BOXES),
    "boxes-chacal": (166, merge(_BOXES, {"model": {"attention": ["standard", "chacal"]}})),
    "box-moves-standard": (144, _BOX_MOVES),
    "box-moves-chacal": (92, merge(_BOX_MOVES, {"model": {"attention": ["standard", "chacal"]}})),
    "increment-standard": (98, _INCREMENT),
    "increment-hints": (201, merge(_INCREMENT, {"task": {"hints": ["carry"]}, "steps": 3600})),
    "increment-tempered": (100, merge(_INCREMENT, {"model": {"attention": "tempered"}})),
    "arithmetic-vanilla": (63, _ARITHMETIC),
    "arithmetic-seqvcr": (89, _ARITHMETIC_SEQ_VCR),
    "arithmetic-pause": (199, merge(_ARITHMETIC, {**_PAUSE, "steps": 6000})),
    "arithmetic-seqvcr-pause": (151, merge(_ARITHMETIC_SEQ_VCR, _PAUSE)),
    "arithmetic-cot": (111, merge(_ARITHMETIC, _THOUGHT)),
    "lis-vanilla": (98, _LIS),
    "lis-seqvcr": (107, _LIS_SEQ_VCR),
    "lis-pause": (181, merge(_LIS, _PAUSE)),
    "lis-seqvcr-pause": (187, merge(_LIS_SEQ_VCR, _PAUSE)),
    "lis-cot": (254, merge(_LIS, _THOUGHT)),
    "text-standard": (140, _TEXT),
    "text-chacal": (163, merge(_TEXT, {"model": {"attention": "chacal"}})),
    "addition-grok": (45, _ADDITION),
    "induction-standard": (37, {**_TASK, "task": {"name": "induction"}, "steps": 1000}),
    "recall-standard": (77, {**_TASK, "task": _RECALL, "learning_rate": 2e-3}),
    "dyck-standard": (18, {**_TASK, "task": {"name": "dyck"}, "steps": 500}),
    "parity-standard": (32, _PARITY),
    "parity-chacal": (21, merge(_PARITY, _ONE_CHACAL)),
    "s5-standard": (43, _S5),
    "s5-chacal": (31, merge(_S5, _ONE_CHACAL)),
}
PRESETS: dict[str, dict[str, Any]] = {name: preset for name, (_, preset) in _TIMED.items()}
SECONDS: dict[str, int] = {name: seconds for name, (seconds, _) in _TIMED.items()}


def preset_config(config: str | RunConfig | Mapping[str, Any] | None, overrides: Mapping[str, Any]) -> RunConfig:
    """A preset or a whole config, with some fields replaced.

    Args:
        config: None for a standard model of two layers, on the task that is among the fields.
        overrides: the fields.

    Raises:
        ValueError: if the preset does not exist, or a field or its value is wrong; in one line.
    """
    base: Mapping[str, Any]
    if config is None:
        config, overrides = {**_TASK, "task": overrides.get("task", {})}, {**overrides, "task": {}}
    if isinstance(config, str):
        presets = PAPER_PRESETS if config.startswith("paper/") else PRESETS
        base = {"preset": config, **lookup(presets, config, "preset")}
    elif overrides:
        base = unfitted(config if isinstance(config, RunConfig) else parse_config(config))
    else:
        base = config.model_dump(mode="json") if isinstance(config, RunConfig) else config
    if "preset" in overrides:
        raise ValueError("preset names what a config was made from; give another preset instead of replacing it")
    task = overrides.get("task")
    if isinstance(task, Mapping):
        if task.get("name", base["task"]["name"]) != base["task"]["name"]:
            base = {**base, "task": {}}  # the settings of one task mean nothing to another
        derived = ("d_vocab", "n_ctx", "heads")
        base = {**base, "model": {key: value for key, value in base["model"].items() if key not in derived}}
    made = parse_config(merge(base, overrides) if overrides else base)
    for condition in made.test_conditions:
        check_condition(made.make_task(), condition)
    return made
