"""ChaCAL, training and inspection on a GPU: what of it is fast, and whether it gives the CPU's numbers.

python tests/benchmarks/bench_gpu.py            print the tables
python tests/benchmarks/bench_gpu.py --write    and put them into README.md beside this file

It needs a CUDA device, and for the kernels Triton. Where flash-linear-attention and flash-attn are installed,
the former's `deltaformer` is timed too.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from bench_attention import textbook
from harness import Table, main, milliseconds, spread
from torch import Tensor

import workbench
from workbench.inspection import inspect_run
from workbench.models import Decoder
from workbench.models.attention import chacal_attention, chacal_gpu
from workbench.training import preset_config, train_seeds
from workbench.training.data import training_batches
from workbench.util.seeds import generator

HEADS, D_HEAD, ROUNDS, SEEDS, STEPS = 8, 64, 15, 8, 200
Form = Callable[[Tensor, Tensor, Tensor], Tensor]


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def forms() -> dict[str, Form]:
    known: dict[str, Form] = {"fused standard": fused, "ChaCAL": chacal_attention}
    if all(find_spec(name) is not None for name in ("fla", "flash_attn")):  # its `deltaformer` needs both
        from fla.ops.deltaformer import deltaformer_attn

        def deltaformer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            """Its layout is [batch, pos, head, d_head]; β = −γ is ChaCAL's but for the diagonal, at the same cost."""
            beta = q.new_full((q.shape[0], q.shape[2], q.shape[1]), -0.9)
            return deltaformer_attn(*(x.transpose(1, 2) for x in (q, k, v)), beta).transpose(1, 2)

        known["deltaformer"] = deltaformer
    return known


def drawn(batch: int, n_pos: int, dtype: torch.dtype) -> list[Tensor]:
    rng = generator(0)
    shape = (batch, HEADS, n_pos, D_HEAD)
    return [torch.randn(shape, generator=rng).to("cuda", dtype).requires_grad_() for _ in range(3)]


def step(form: Form, inputs: list[Tensor]) -> None:
    for x in inputs:
        x.grad = None
    form(*inputs).sum().backward()


def gpu_rounds(steps: dict[str, Callable[[], None]], n: int) -> dict[str, list[float]]:
    """Milliseconds of each form by the device's own clock, in turns, after three to warm up and compile."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(n + 3):
        for name in list(steps)[:: 1 if number % 2 else -1]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            steps[name]()
            end.record()
            torch.cuda.synchronize()
            taken[name].append(start.elapsed_time(end))
    return {name: of_all[3:] for name, of_all in taken.items()}


def megabytes(form: Form, inputs: list[Tensor]) -> float:
    """Memory at the peak of forward and backward, beside the inputs."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(form, inputs)
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def gpu_attention() -> Table:
    known = forms()
    kernel = chacal_gpu.usable(*(x.detach() for x in drawn(1, 64, torch.bfloat16)), "eq5", False)
    others = [name for name in known if name != "ChaCAL"]
    title = f"batch × length ({torch.cuda.get_device_name()}; ChaCAL {'by its kernels' if kernel else 'in blocks'})"
    table = Table("gpu-attention", title, "type", *known, *(f"ChaCAL / {name}" for name in others), "ChaCAL's memory")
    memory = {}
    cases = [(512, 32), (128, 128), (32, 512), (8, 2048), (4, 4096), (4, 8192), (4, 16384)]
    for dtype in (torch.float32, torch.bfloat16):
        for batch, n_pos in cases if dtype == torch.bfloat16 else cases[:4]:
            inputs = drawn(batch, n_pos, dtype)
            taken = gpu_rounds({name: partial(step, form, inputs) for name, form in known.items()}, ROUNDS)
            over = {name: [a / b for a, b in zip(taken["ChaCAL"], taken[name], strict=True)] for name in others}
            memory[n_pos] = megabytes(chacal_attention, inputs)
            table.add(
                f"{batch} × {n_pos}", str(dtype).removeprefix("torch."), *map(milliseconds, taken.values()),
                *map(spread, over.values()), f"{memory[n_pos]:,.0f} MB",
            )  # fmt: skip
            if (dtype, n_pos) == (torch.bfloat16, 4096):
                for name, most in (("fused standard", 1.3), ("deltaformer", 1.0)):
                    if name in over:
                        table.ask(f"ChaCAL / {name} at 4 × 8 × 4096 × 64", statistics.median(over[name]), most=most)
    table.ask("memory at 16384 over that at 4096, 4 if it is linear", memory[16384] / memory[4096], most=4.2)
    exact = drawn(1, 300, torch.float32)
    apart = (chacal_attention(*exact) - textbook(*(x.double() for x in exact))).abs().max().item()
    table.ask("value in float32 from float64, 300 positions", apart, most=1e-4)
    return table


def synchronisations(preset: str) -> float:
    """How many times a training step of a preset makes the host wait for the device."""
    from workbench.training.distributed import Processes
    from workbench.training.optimizer_step import Step
    from workbench.training.training_run import TrainingRun

    config = preset_config(preset, {"device": "cuda", "steps": STEPS})
    with tempfile.TemporaryDirectory() as folder:
        member = TrainingRun(config, Path(folder) / "run", Processes.started("cuda"))
        one = Step(config, member.learner, member.processes)
        batches = list(islice(training_batches(member.task, config), 6))
        for batch in batches[:3]:
            one(batch, 1e-3)
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                for batch in batches[3:]:
                    one(batch, 1e-3)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in seen) / 3


def gpu_training() -> Table:
    table = Table("gpu-training", "preset", "a step", "host waits in a step", f"{SEEDS} seeds / one")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for preset in ("chain-standard", "chain-chacal"):
            settings = {"steps": STEPS, "eval_size": 1, "progress": False, "device": "cuda"}
            seconds = {}
            for what in ("to warm up", "one", "stack"):
                shutil.rmtree(place / "made", ignore_errors=True)
                start = time.perf_counter()
                if what == "stack":
                    train_seeds(preset, place / "made", SEEDS, **settings)
                else:
                    workbench.train(preset, out=place / "made", **settings)
                torch.cuda.synchronize()
                seconds[what] = time.perf_counter() - start
            times = seconds["stack"] / seconds["one"]
            waits = synchronisations(preset)
            table.add(preset, f"{seconds['one'] / STEPS * 1e3:.2f} ms", f"{waits:.1f}", f"{times:.2f}")
            table.ask(f"{preset}: {SEEDS} seeds as a stack, times one", times, most=2)
            table.ask(f"{preset}: host waits in a training step", waits, most=0)
    return table


def gpu_inspection() -> Table:
    """Logits of a trained model on both devices; and the seconds of `inspect` where the model is."""
    table = Table("gpu-inspection", "what", "figure")
    with tempfile.TemporaryDirectory() as folder:
        run = workbench.train("chain-chacal", out=Path(folder) / "run", progress=False, device="cuda", steps=STEPS)
        model = run.model().cpu()
        tokens = run.task().sample(64, generator(1)).tokens
        with torch.no_grad():
            expected = model(tokens)
            copied: Decoder = model.to("cuda")
            apart = (copied(tokens.cuda()).cpu() - expected).abs().max().item()
        table.add("logits of the demo, GPU against CPU", f"{apart:.1e}")
        table.ask("logits of the demo, GPU against CPU, float32", apart, most=1e-4)
        start = time.perf_counter()
        inspect_run(run, n=64, seed=0, causal=False)
        table.add("inspect_run, 64 sequences", f"{time.perf_counter() - start:.1f} s")
    return table


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("bench_gpu.py needs a CUDA device, and PyTorch finds none here: nothing was measured.")
    main(__doc__, gpu_attention, gpu_training, gpu_inspection)
