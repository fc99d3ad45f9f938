"""Calls of all public functions of TransformerLens's patching, cache, head detector and lenses, and what it must give.

A call gives a value, or a value and what it must equal. `python -m tests.models.transformer_lens_table` writes the
table of the docs from them.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformer_lens import head_detector, patching
from transformer_lens.ActivationCache import ActivationCache
from transformer_lens.tools.analysis.jacobian_lens import JacobianLens, JacobianLensReadout
from transformer_lens.tools.analysis.logit_lens import LogitLensResult, LogitReadout

logit_lens: Any = importlib.import_module("transformer_lens.tools.analysis.logit_lens")
jacobian_lens: Any = importlib.import_module("transformer_lens.tools.analysis.jacobian_lens")
NEW = 5  # the token of the corrupted text that differs


@dataclass
class Subject:
    """A hooked model of two layers with two heads or more, and two texts that differ in one word."""

    model: Any
    text: str
    other: str

    @cached_property
    def tokens(self) -> Tensor:
        return self.model.to_tokens([self.text] * 2, prepend_bos=False)

    @cached_property
    def corrupted(self) -> Tensor:
        return self.model.to_tokens([self.other] * 2, prepend_bos=False)

    @cached_property
    def cache(self) -> ActivationCache:
        return self.model.run_with_cache(self.tokens)[1]

    @cached_property
    def broken(self) -> ActivationCache:
        return self.model.run_with_cache(self.corrupted)[1]

    @cached_property
    def one(self) -> ActivationCache:
        return self.model.run_with_cache(self.tokens[:1])[1].remove_batch_dim()

    @property
    def logits(self) -> Tensor:
        return self.model(self.tokens)

    @property
    def last(self) -> Tensor:
        """The residual after all layers."""
        return self.cache["blocks.1.hook_resid_post"]

    def metric(self, logits: Tensor) -> Tensor:
        return logits[:, -1, 3].sum()

    def each(self, logits: Tensor) -> Tensor:
        return logits[:, -1, 3]

    @cached_property
    def result(self) -> Any:
        """A sweep by example, of residuals."""
        given = (self.model, self.corrupted, self.cache, self.each)
        return patching.get_act_patch_resid_pre(*given, reduce="none", baseline=True)

    @cached_property
    def read(self) -> LogitLensResult:
        return logit_lens.logit_lens(self.model, self.text, top_k=2)

    @cached_property
    def fitted(self) -> JacobianLens:
        more = {"skip_first_positions": 1, "show_progress": False}
        return JacobianLens.fit(self.model, [self.text, self.other], corpus="two texts", **more)

    @cached_property
    def word(self) -> str:
        return self.text.split()[1]

    @cached_property
    def other_word(self) -> str:
        return self.text.split()[2]


def sweep(name: str, s: Subject) -> tuple[Tensor, Tensor]:
    """A sweep that patches nothing, which must give the corrupted run's figure in every cell; another gives others."""
    function = getattr(patching, name)
    nothing = function(s.model, s.corrupted, s.broken, s.metric)
    value = s.metric(s.model(s.corrupted))
    patched = function(s.model, s.corrupted, s.cache, s.metric)
    assert (patched - value).abs().max() > 1e-5, "patching changes nothing"
    return nothing, value.expand_as(nothing)


def direct(name: str, s: Subject) -> tuple[Tensor, Tensor]:
    """Direct paths, by which nothing goes from a cache to itself."""
    function, source = getattr(patching, name), {} if "all" in name else {"src_layer": 0, "src_head": 0}
    given = {**source, "component": "v", "verbose": False}
    nothing = function(s.model, s.corrupted, s.broken, s.broken, s.metric, **given)
    later = nothing[..., 1, :] if "all" not in name else nothing[0, :, 1]
    value = s.metric(s.model(s.corrupted))
    return later, value.expand_as(later)


def setter(name: str, index: tuple[int, ...], point: str, s: Subject) -> tuple[Tensor, Tensor]:
    """A setter by its own sweep over one cell."""
    clean, corrupted = s.cache[point, index[0]], s.broken[point, index[0]].clone()
    changed = getattr(patching, name)(corrupted.clone(), index, clean)
    return changed, torch.where(changed == corrupted, corrupted, clean)


def one_layer(s: Subject, **more: Any) -> Any:
    return patching.generic_activation_patch(
        s.model, s.corrupted, s.cache, s.metric, lambda x, index, cache: cache, "resid_pre", ["layer"], **more
    )


def saved(s: Subject) -> tuple[Tensor, Tensor]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "lens.pt")
        s.fitted.save(path, dtype=torch.float32)
        return JacobianLens.load(path).jacobians[0], s.fitted.jacobians[0]


def from_pretrained(s: Subject) -> tuple[Tensor, Tensor]:
    with tempfile.TemporaryDirectory() as folder:
        s.fitted.save(str(Path(folder) / "lens.pt"), dtype=torch.float32)
        return JacobianLens.from_pretrained(str(Path(folder) / "lens.pt")).jacobians[0], s.fitted.jacobians[0]


def hooked_logits(s: Subject, hooks: Any) -> Tensor:
    logits = s.model.run_with_hooks(s.tokens[:1], fwd_hooks=hooks)
    assert (logits - s.model(s.tokens[:1])).abs().max() > 1e-6, "hooks change nothing"
    return logits


def attributed(s: Subject) -> tuple[Tensor, Tensor]:
    """The attributions of all that is written add up to that of the residual."""
    parts, given = s.cache.decompose_resid(layer=-1, pos_slice=-1), {"tokens": s.tokens[:, -1], "pos_slice": -1}
    return s.cache.logit_attrs(parts, **given).sum(0), s.cache.logit_attrs(s.last[None, :, -1], **given)[0]


def normed(s: Subject) -> tuple[Tensor, Tensor]:
    """The norm without its gain and bias."""
    return s.cache.apply_ln_to_stack(s.last[None], layer=-1)[0], torch.layer_norm(s.last, s.last.shape[-1:])


def neurons(s: Subject) -> tuple[Tensor, Tensor]:
    stack = s.cache.stack_neuron_results(2, incl_remainder=True)
    return stack.sum(0), s.last


def whole(s: Subject) -> tuple[Tensor, Tensor]:
    parts = s.cache.get_full_resid_decomposition(layer=2, expand_neurons=False)
    return parts.sum(0), s.last


def detected(s: Subject) -> Tensor:
    scores = head_detector.detect_head(s.model, s.text, "previous_token_head")
    assert scores.shape == (2, s.model.cfg.n_heads)
    return scores


def ssm(name: str, s: Subject) -> Any:
    return getattr(s.cache, name)()


def steering(name: str, s: Subject, *given: Any, **more: Any) -> Tensor:
    return hooked_logits(s, getattr(s.fitted, name)(s.model, *given, **more))


J = "JacobianLens."
C = "ActivationCache."
P = "PatchingResult."
SETTERS = {
    "layer_pos_patch_setter": ((0, 2), "resid_pre"),
    "layer_pos_head_vector_patch_setter": ((0, 2, 1), "z"),
    "layer_head_vector_patch_setter": ((0, 1), "z"),
    "layer_head_pattern_patch_setter": ((0, 1), "pattern"),
    "layer_head_pos_pattern_patch_setter": ((0, 1, 2), "pattern"),
    "layer_head_dest_src_pos_pattern_patch_setter": ((0, 1, 2, 1), "pattern"),
}
SWEEPS = [name for name in vars(patching) if name.startswith("get_act_patch") and "direct" not in name]
PATCHING: dict[str, Callable[[Subject], Any]] = {
    "make_df_from_ranges": lambda s: (len(patching.make_df_from_ranges([2, 3], ["a", "b"])), 6),
    "generic_activation_patch": lambda s: (one_layer(s), s.metric(s.logits).expand(2)),
    **{name: partial(setter, name, *where) for name, where in SETTERS.items()},
    **{name: partial(sweep, name) for name in SWEEPS},
    "get_act_patch_direct_path": partial(direct, "get_act_patch_direct_path"),
    "get_act_patch_direct_path_all_sources": partial(direct, "get_act_patch_direct_path_all_sources"),
    P + "mean": lambda s: (s.result.mean()[0, 0] * 2, s.metric(s.model(s.corrupted))),
    P + "stderr": lambda s: s.result.stderr(),
    P + "effect": lambda s: (s.result.effect()[0, 0], torch.zeros(2)),
    P + "normalized": lambda s: (s.result.normalized(s.each(s.logits))[0, NEW], torch.ones(2)),
    P + "bootstrap_ci": lambda s: s.result.bootstrap_ci(n_resamples=10),
    P + "permutation_pvalue": lambda s: s.result.permutation_pvalue(n_permutations=10),
    P + "to_dataframe": lambda s: (len(s.result.to_dataframe()), s.result.values.numel()),
}
CACHE: dict[str, Callable[[Subject], Any]] = {
    C + "remove_batch_dim": lambda s: (s.one["z", 0], s.cache["z", 0][0]),
    C + "to": lambda s: s.cache.to("cpu")["z", 0],
    C + "toggle_autodiff": lambda s: [s.cache.toggle_autodiff(mode) for mode in (False, True)],
    C + "keys": lambda s: (len(s.cache.keys()), len(s.cache)),
    C + "values": lambda s: (len(list(s.cache.values())), len(s.cache)),
    C + "items": lambda s: (len(s.cache.items()), len(s.cache)),
    C + "apply_slice_to_batch_dim": lambda s: (
        s.model.run_with_cache(s.tokens)[1].apply_slice_to_batch_dim(0)["z", 0],
        s.cache["z", 0][0],
    ),
    C + "accumulated_resid": lambda s: (s.cache.accumulated_resid(incl_mid=True)[-1], s.last),
    C + "logit_lens": lambda s: (s.cache.logit_lens().readout.values[-1].flatten(), s.logits[:, -1].flatten()),
    C + "logit_attrs": attributed,
    C + "decompose_resid": lambda s: (s.cache.decompose_resid(layer=-1).sum(0), s.last),
    C + "compute_head_results": lambda s: s.cache.compute_head_results(),
    C + "ssm_layers": lambda s: (s.cache.ssm_layers(), []),
    C + "compute_ssm_effective_attention": partial(ssm, "compute_ssm_effective_attention"),
    C + "compute_ssm_state": partial(ssm, "compute_ssm_state"),
    C + "stack_head_results": lambda s: (s.cache.stack_head_results(2, incl_remainder=True).sum(0), s.last),
    C + "stack_activation": lambda s: (s.cache.stack_activation("z")[1], s.cache["z", 1]),
    C + "get_neuron_results": lambda s: s.cache.get_neuron_results(0),
    C + "stack_neuron_results": neurons,
    C + "apply_ln_to_stack": normed,
    C + "get_full_resid_decomposition": whole,
}
DETECTOR: dict[str, Callable[[Subject], Any]] = {
    "detect_head": detected,
    "get_previous_token_head_detection_pattern": lambda s: head_detector.get_previous_token_head_detection_pattern(
        s.tokens[:1]
    ),
    "get_duplicate_token_head_detection_pattern": lambda s: head_detector.get_duplicate_token_head_detection_pattern(
        s.tokens[:1]
    ),
    "get_induction_head_detection_pattern": lambda s: head_detector.get_induction_head_detection_pattern(s.tokens[:1]),
    "get_supported_heads": lambda s: head_detector.get_supported_heads(),
    "compute_head_attention_similarity_score": lambda s: head_detector.compute_head_attention_similarity_score(
        s.one["pattern", 0][0],
        head_detector.get_previous_token_head_detection_pattern(s.tokens[:1]),
        exclude_bos=False,
        exclude_current_token=False,
        error_measure="mul",
    ),
}
LENSES: dict[str, Callable[[Subject], Any]] = {
    "logit_readout": lambda s: (logit_lens.logit_readout(s.model, s.last).values, s.logits),
    "logit_lens": lambda s: (
        logit_lens.logit_lens(s.model, s.text).readout.values[-1].flatten()[-5:],
        s.logits[0, -1, -5:],
    ),
    "LogitReadout.row_ids": lambda s: s.read.readout.row_ids((0, 0, 0)),
    "LogitReadout.decode": lambda s: s.read.readout.decode(s.model.tokenizer),
    "LogitLensResult.top_tokens": lambda s: s.read.top_tokens(s.model.tokenizer),
    "LogitLensResult.rank_trajectory": lambda s: logit_lens.logit_lens(
        s.model, s.text, targets=[s.word]
    ).rank_trajectory(s.word),
    "LogitLensResult.to_dataframe": lambda s: s.read.to_dataframe(),
    J + "fit": lambda s: s.fitted.jacobians[0],
    J + "save": saved,
    J + "load": saved,
    J + "from_pretrained": from_pretrained,
    J + "merge": lambda s: (JacobianLens.merge([s.fitted, s.fitted]).jacobians[0], s.fitted.jacobians[0]),
    J + "validate_model": lambda s: s.fitted.validate_model(s.model),
    J + "clear_device_cache": lambda s: s.fitted.clear_device_cache(),
    J + "transport": lambda s: s.fitted.transport(s.cache["blocks.0.hook_resid_post"], 0),
    J + "readout": lambda s: s.fitted.readout(s.model, s.text, top_k=2).lens_topk_values[0],
    J + "lens_vectors": lambda s: s.fitted.lens_vectors(s.model, s.word, 0),
    J + "lens_vector_dictionary": lambda s: s.fitted.lens_vector_dictionary(s.model, 0),
    J + "decompose": lambda s: s.fitted.decompose(s.model, s.text, 0, position=2, k=3).reconstruction,
    J + "coordinate_patch": lambda s: (
        s.fitted.coordinate_patch(s.model, s.text, 0, s.word, s.other_word, position=2, k=3).patched
    ),
    J + "occupancy": lambda s: (
        s.fitted.occupancy(s.model, s.text, 0, position=2, max_atoms=3, num_control_dictionaries=2).occupancy
    ),
    J + "fraction_of_variance": lambda s: s.fitted.fraction_of_variance(s.model, s.text, k=2, skip_first=1).median[0],
    J + "steering_hooks": lambda s: steering("steering_hooks", s, s.word, [0]),
    J + "ablation_hooks": lambda s: steering("ablation_hooks", s, s.word, [0]),
    J + "swap_hooks": lambda s: steering("swap_hooks", s, s.word, s.other_word, [0]),
    J + "swap_clamp_hooks": lambda s: steering(
        "swap_clamp_hooks", s, s.word, s.other_word, [0], s.model.run_with_cache(s.corrupted[:1])[1]
    ),
    J + "coordinate_patch_hooks": lambda s: steering(
        "coordinate_patch_hooks", s, s.word, s.other_word, [0], positions=[2], k=3
    ),
    "JacobianLensReadout.top_tokens": lambda s: (
        len(s.fitted.readout(s.model, s.text, top_k=2).top_tokens(s.model.tokenizer, k=2)[0]),
        s.tokens.shape[1],
    ),
}
TABLES = {
    "`transformer_lens.patching`": PATCHING,
    "`ActivationCache`": CACHE,
    "`transformer_lens.head_detector`": DETECTOR,
    "Lenses (`transformer_lens.tools.analysis`)": LENSES,
}
MODULES = (patching, head_detector, logit_lens, jacobian_lens)
KINDS = (patching.PatchingResult, ActivationCache, JacobianLens, JacobianLensReadout, LogitLensResult, LogitReadout)


def public() -> set[str]:
    """The public functions of these modules, and the public methods of their classes, as TransformerLens has them."""
    names = set()
    for module in MODULES:
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == module.__name__ or type(value) is partial
            if own and callable(value) and not isinstance(value, type) and not name.startswith("_"):
                names.add(name)
    for kind in KINDS:
        methods = (name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name)))
        names |= {f"{kind.__name__}.{name}" for name in methods}
    return names
