"""What a variant keeps of the tokens it has read, bound to the cache of keys and values that Transformers makes.

ChaCAL's new rows read the solved values W of earlier positions (Eq. 5; for Eq. 7 values and outputs), which differ from
head to head even where heads share their keys and values. So they cannot stand in the cache in place of the values, and
lie beside them in the cache's own layer: they live as long as it does, and follow it when it is reordered or cut.
"""

from __future__ import annotations

import threading
from typing import Any, cast
from weakref import ReferenceType, WeakKeyDictionary, ref

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary
from transformers.cache_utils import Cache, DynamicLayer

WATCHED = "workbench_sees_cache"
"""The attribute of an attention module with a hook that sees its cache."""


class _Present(threading.local):
    """For each attention module that is running in this thread, the layer of the cache that it fills, if any.

    It keeps neither alive.
    """

    def __init__(self) -> None:
        self.layers: WeakKeyDictionary[nn.Module, ReferenceType[_MemoryLayer]] = WeakKeyDictionary()

    def see(self, module: nn.Module, layer: _MemoryLayer | None) -> None:
        self.layers.pop(module, None)
        if layer is not None:
            self.layers[module] = ref(layer)

    def layer(self, module: nn.Module) -> _MemoryLayer | None:
        reference = self.layers.get(module)
        return None if reference is None else reference()


_PRESENT = _Present()
_FIRST = WeakTensorKeyDictionary()
"""The values that a module's first call left in a cache, which was not seen yet -> what the variant kept of them."""


class _MemoryLayer(DynamicLayer):
    """A layer of a `DynamicCache` with the variant's memory of the same positions.

    Attributes:
        memory: `[batch, head, pos, d_memory]` (`Attention.memory_width`); None where nothing was kept.
    """

    memory: Float[Tensor, "batch head pos d_memory"] | None = None

    def reset(self) -> None:
        super().reset()
        self.memory = None

    def crop(self, tokens_to_remove: int) -> None:
        super().crop(tokens_to_remove)
        if tokens_to_remove and self.memory is not None:
            self.memory = self.memory[..., : -abs(tokens_to_remove), :]

    def reorder_cache(self, beam_idx: Int[Tensor, " batch"]) -> None:
        super().reorder_cache(beam_idx)  # type: ignore[arg-type]
        if self.memory is not None:
            self.memory = self.memory.index_select(0, beam_idx.to(self.memory.device))

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        if self.memory is not None:
            self.memory = self.memory.repeat_interleave(repeats, dim=0)

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        if self.memory is not None:
            self.memory = self.memory[indices, ...]

    def offload(self) -> None:
        super().offload()
        if self.memory is not None:
            self.memory = self.memory.to("cpu", non_blocking=True)

    def prefetch(self) -> None:
        super().prefetch()
        if self.memory is not None:
            self.memory = self.memory.to(self.device, non_blocking=True)


def remembered(module: nn.Module, n_old: int) -> Float[Tensor, "batch head old d_memory"] | None:
    """What the variant kept of the `n_old` positions that the module's cache held before this call.

    None at the beginning, where there are none.

    Raises:
        ValueError: if there are such positions and it was not kept of all of them.
    """
    if not n_old:
        return None
    layer = _PRESENT.layer(module)
    memory = None if layer is None else layer.memory
    if memory is None or memory.shape[-2] != n_old:
        n_kept = 0 if memory is None else memory.shape[-2]
        raise ValueError(
            f"layer {getattr(module, 'layer_idx', '?')} goes on from {n_old} cached tokens, and its attention variant "
            f"kept what it needs of {n_kept}: the cache must be a DynamicCache that this model itself has filled, with "
            "this attention and without gradients (torch.no_grad())"
        )
    return memory


def without_cache(module: nn.Module) -> bool:
    """Whether the present call of a module fills no cache; before its first call nobody knows."""
    return hasattr(module, WATCHED) and _PRESENT.layer(module) is None


def keep(module: nn.Module, values: Tensor, memory: Tensor | None) -> None:
    """Bind what the variant keeps of all positions so far to the cache of this call, if there is one.

    Transformers' attention functions do not see the cache. So a hook on the module does (`watch`). A module without
    one gets it at its first call; what is to be kept is then found at the next call by the values, which a cache holds
    as they were given, if it is not reordered or cut before.
    """
    if hasattr(module, WATCHED):
        layer = _PRESENT.layer(module)
        if layer is not None:
            layer.memory = memory
        return
    watch(module)
    if memory is not None:
        _FIRST[values] = memory


def watch(model: nn.Module) -> None:
    """Let every layer of a model, or this very layer, see its cache from its next call on."""
    for module in model.modules():
        if hasattr(module, "layer_idx") and not hasattr(module, WATCHED):
            setattr(module, WATCHED, True)
            module.register_forward_pre_hook(_see_cache, with_kwargs=True)


def _see_cache(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Before an attention module runs: find the layer of the cache that it will fill, and make it one with a memory.

    There is none where nothing is cached, or where it is a kind of cache that cannot have one.
    """
    cache = next((x for x in (*given, *named.values()) if isinstance(x, Cache)), None)
    index, layer = cast(int, module.layer_idx), cast(Any, None)
    if cache is not None:
        if cache.layer_class_to_replicate is not None:
            while len(cache.layers) <= index:
                cache.layers.append(cache.layer_class_to_replicate())
        layer = cache.layers[index]
        if type(layer) is DynamicLayer:
            layer.__class__ = _MemoryLayer
            setattr(layer, "memory", None if layer.values is None else _FIRST.pop(layer.values, None))  # noqa: B010
    _PRESENT.see(module, layer if isinstance(layer, _MemoryLayer) else None)
