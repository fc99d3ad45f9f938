"""Compiles ChaCAL's Triton kernels for GPUs that need not be there: a program for a test.

A process of its own, since Triton either compiles or interprets.
"""

from __future__ import annotations

import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from workbench.models.attention import chacal_kernels

KERNELS = ("carry", "solve", "carry_back", "solve_back", "query_gradient", "key_gradient")
ARCHITECTURES = (80, 90)  # A100 and H100
GIVEN = ("q", "k", "v", "grad_q", "grad_k")  # in the type of the model
WHOLE = ("n_pos", "d", "dv", "first", "last", "n_blocks")
REAL = ("scale", "gamma", "rest")


def compiled(name: str, architecture: int, half: bool, eq5: bool) -> int:
    """The size of a kernel's machine code, at 64 dimensions a head."""
    kernel = getattr(chacal_kernels, name)
    settings: dict[str, Any] = {"D": 64, "DV": 64, "BLOCK": 64, "PRECISION": "tf32" if half else "tf32x3"}
    settings |= {"EQ5": eq5, "DIAGONAL": not eq5, "LOG": 6}
    constants = {argument: value for argument, value in settings.items() if argument in kernel.arg_names}

    def of_type(argument: str) -> str:
        if argument in constants:
            return "constexpr"
        if argument in WHOLE or argument in REAL:
            return "i32" if argument in WHOLE else "fp32"
        return "*bf16" if half and argument in GIVEN else "*fp32"

    signature = {argument: of_type(argument) for argument in kernel.arg_names}
    places = {(kernel.arg_names.index(argument),): value for argument, value in constants.items()}
    source = ASTSource(kernel, signature, places)
    return len(triton.compile(source, target=GPUTarget("cuda", architecture, 32)).asm["cubin"])


def main() -> None:
    for name in KERNELS:
        for architecture in ARCHITECTURES:
            for half, eq5 in ((True, True), (False, False)):
                size = compiled(name, architecture, half, eq5)
                sys.stdout.write(f"{name} sm_{architecture} {'half' if half else 'single'} {size}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
