"""Support for `torch.func.vmap`, with which several seeds train as one stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


def under_vmap(x: Tensor) -> bool:
    """Whether a tensor is wrapped by `torch.func` (`vmap`, `grad`), where code may not branch on its values."""
    return torch._C._functorch.is_functorch_wrapped_tensor(x)


def transformed() -> bool:
    """Whether `torch.func` or `torch.compile` is at work.

    A Function for them has a `setup_context`, and then PyTorch looks up its signature at each call, which takes longer
    than a small computation.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def folded(
    function: Any, info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply an autograd Function under vmap by folding the axis of vmap into the first axis of its tensors.

    That is right only where the entries along the first axis are computed independently of each other, as the examples
    of a batch are. The results, a tuple of tensors, are unfolded again.

    Args:
        function: the Function; its last argument is not a tensor, the others are tensors or None.
        info, in_dims, args: what PyTorch passes to the `vmap` method of a Function.
    """
    *tensors, last = args
    size = info.batch_size
    moved = [
        x if x is None else (x.unsqueeze(0).expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)
        for x, dim in zip(tensors, in_dims[:-1], strict=True)
    ]
    out = function.apply(*moved, last)
    return tuple(x.unflatten(0, (size, -1)) for x in out), (0,) * len(out)


def differentiable(
    outputs: Callable[..., tuple[Tensor, ...]], gradients: Callable[..., tuple[Tensor, ...]], no_second: str
) -> tuple[type[Function], type[Function]]:
    """Two autograd Functions with gradients written by hand: a quick one, and one that can be transformed.

    Both are applied to tensors (or None) and one last argument, the settings. The quick one returns the result alone.
    The other returns all of `outputs`, of which the result alone has a gradient; it has the form that `torch.func` and
    `torch.compile` transform, in which a call takes half a millisecond more.

    Args:
        outputs: of the same arguments: the result, and tensors that `gradients` needs beside it.
        gradients: of the gradient of the result, the tensors, all of `outputs` and the settings: the gradients of the
            first tensors; the others have none.
        no_second: what the RuntimeError says that a second derivative raises.
    """
    backward = _backward(gradients, no_second)

    class Quick(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Tensor:
            result, *kept = outputs(*args)
            *tensors, ctx.settings = args
            ctx.save_for_backward(*tensors, result, *kept)
            return result

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
            # a second derivative was asked for, which `backward` refuses; it costs time
            apply = backward.apply if torch.is_grad_enabled() else gradients
            return _for_each_input(ctx, apply(grad, *ctx.saved_tensors, ctx.settings))

    return Quick, _transformed(outputs, gradients, backward)


def _transformed(
    outputs: Callable[..., tuple[Tensor, ...]], gradients: Callable[..., tuple[Tensor, ...]], backward: type[Function]
) -> type[Function]:
    """The second Function of `differentiable`, whose backward pass is `backward`."""

    class Transformed(Function):
        @staticmethod
        def forward(*args: Any) -> tuple[Tensor, ...]:
            return outputs(*args)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            *tensors, ctx.settings = inputs
            ctx.mark_non_differentiable(*output[1:])
            ctx.set_materialize_grads(False)  # else zeros are made for each of those at every backward
            ctx.save_for_backward(*tensors, *output)

        @staticmethod
        def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
            if grad is None:
                return _for_each_input(ctx, ())
            # `torch.compile` cannot trace a Function that is no global, and takes no second derivative anyway
            apply = gradients if torch.compiler.is_compiling() else backward.apply
            return _for_each_input(ctx, apply(grad, *ctx.saved_tensors, ctx.settings))

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
            return folded(Transformed, info, in_dims, args)

    return Transformed


def _backward(gradients: Callable[..., tuple[Tensor, ...]], no_second: str) -> type[Function]:
    """The backward pass as a Function of its own, so that vmap can batch it and a second derivative is refused."""

    class Backward(Function):
        @staticmethod
        def forward(*args: Any) -> tuple[Tensor, ...]:
            return gradients(*args)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            raise RuntimeError(no_second)

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
            return folded(Backward, info, in_dims, args)

    return Backward


def _for_each_input(ctx: Any, gradients: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients of a Function's first inputs, and None for each of the others."""
    return (*gradients, *(None,) * (len(ctx.needs_input_grad) - len(gradients)))
