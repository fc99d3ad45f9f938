"""Attention variants beside their textbook forms and PyTorch's fused standard attention: training, memory, decoding.

python tests/benchmarks/bench_attention.py            print the tables
python tests/benchmarks/bench_attention.py training   one of them
python tests/benchmarks/bench_attention.py --write    and put them into README.md beside this file
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from harness import Table, grew, main, milliseconds, peak_megabytes, ratios, rounds, spread
from torch import Tensor

from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION, chacal_attention
from workbench.util.seeds import generator

Form = Callable[[Tensor, Tensor, Tensor], Tensor]
HEADS, D_HEAD, CONTEXT, TOKENS = 8, 64, 2048, 200
ROUNDS, ROUNDS_OF_LONG = 45, 15
LEAST = {512: 4.0, 2048: 5.0}  # textbook over blocks; elsewhere no slower
MOST = {32: 1.3, 128: 1.3, 512: 1.2, 2048: 1.3}  # blocks over fused standard


def textbook(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Eq. 5 as it is written: the whole pattern, one triangular solve, PyTorch's own derivatives."""
    A = ATTENTION["standard"]().pattern(q, k)
    return 0.1 * (A @ torch.linalg.solve_triangular(-0.9 * A, v, upper=False, unitriangular=True))


def textbook_tempered(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The scores, all of them, times their temperature."""
    layer = ATTENTION["tempered"](beta=0.3)
    return layer.read(layer.pattern(q, k), v)


FUSED, TEXTBOOK, BLOCKS = "fused standard", "textbook ChaCAL", "ChaCAL in blocks"
TEMPERED, TEXTBOOK_TEMPERED = "tempered", "textbook tempered"
# What is compared stands side by side, so that it is timed in moments that are close together.
FORMS: dict[str, Form] = {
    TEXTBOOK: textbook,
    BLOCKS: chacal_attention,
    FUSED: lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    TEMPERED: ATTENTION["tempered"](beta=0.3).mix,
    TEXTBOOK_TEMPERED: textbook_tempered,
}


def step(form: Form, inputs: list[Tensor]) -> Callable[[], None]:
    def run() -> None:
        for x in inputs:
            x.grad = None
        form(*inputs).sum().backward()

    return run


def training() -> Table:
    columns = [
        f"{TEXTBOOK} / blocks",
        f"blocks / {FUSED}",
        f"{TEXTBOOK_TEMPERED} / {TEMPERED}",
        f"{TEMPERED} / {FUSED}",
    ]
    table = Table("attention", "batch × length", FUSED, TEXTBOOK, BLOCKS, TEMPERED, *columns)
    for batch, n_pos in [(256, 8), (64, 32), (16, 128), (4, 512), (2, 1024), (1, 2048)]:
        rng = generator(0)
        inputs = [torch.randn(batch, HEADS, n_pos, D_HEAD, generator=rng).requires_grad_() for _ in range(3)]
        n_rounds = ROUNDS if n_pos <= 512 else ROUNDS_OF_LONG
        taken = rounds({name: step(form, inputs) for name, form in FORMS.items()}, n_rounds)
        faster, slower = ratios(taken, TEXTBOOK, BLOCKS), ratios(taken, BLOCKS, FUSED)
        tempered = ratios(taken, TEMPERED, FUSED)
        table.add(
            f"{batch} × {n_pos}",
            *(milliseconds(taken[name]) for name in (FUSED, TEXTBOOK, BLOCKS, TEMPERED)),
            *map(spread, (faster, slower, ratios(taken, TEXTBOOK_TEMPERED, TEMPERED), tempered)),
        )
        least, most = LEAST.get(n_pos, 1.0), MOST.get(n_pos)
        table.ask(f"{TEXTBOOK} / blocks at {batch} × {n_pos}", statistics.median(faster), least=least)
        if most is not None:
            table.ask(f"blocks / {FUSED} at {batch} × {n_pos}", statistics.median(slower), most=most)
        if n_pos in (512, 2048):
            table.ask(f"{TEMPERED} / {FUSED} at {batch} × {n_pos}", statistics.median(tempered), most=1.05)
    return table


SETUP = """
from bench_attention import FORMS
from workbench.models.attention import chacal_attention
q, k, v = (torch.randn(1, 8, {n_pos}, 64, requires_grad=True) for _ in range(3))
FORMS[{form!r}](*(x[:, :, :8] for x in (q, k, v))).sum().backward()
q.grad = k.grad = v.grad = None
"""


def growth() -> Table:
    """One sequence, ever longer: time of forward and backward, and memory beside the inputs."""
    forms = (FUSED, TEXTBOOK, BLOCKS)
    table = Table("attention-growth", "length", *(f"{form}, {what}" for form in forms for what in ("time", "memory")))
    memory = {}
    for n_pos in (256, 512, 1024, 2048, 4096, 8192):
        cells = []
        for form in forms:
            time = "not timed"
            if form != TEXTBOOK or n_pos <= 4096:
                rng = generator(0)
                inputs = [torch.randn(1, HEADS, n_pos, D_HEAD, generator=rng).requires_grad_() for _ in range(3)]
                taken = rounds({form: step(FORMS[form], inputs)}, 5 if n_pos <= 2048 else 3)[form]
                time = milliseconds(taken)
                grew("Attention, forward and backward", "ms", "length", form, n_pos, statistics.median(taken))
            setup = f"import sys; sys.path.insert(0, {HERE!r})" + SETUP.format(n_pos=n_pos, form=form)
            memory[form] = peak_megabytes(setup, f"FORMS[{form!r}](q, k, v).sum().backward()")
            cells += [time, f"{memory[form]:,.0f} MB"]
            grew("Attention, memory", "MB", "length", form, n_pos, memory[form])
        table.add(n_pos, *cells)
    table.ask("memory of the blocks at length 8192, MB", memory[BLOCKS], most=1024)
    table.ask("memory of the textbook form there, MB", memory[TEXTBOOK], least=8192)
    return table


def decoding() -> Table:
    """One token more after CONTEXT of them, by every variant in one layer of 8 heads × 64; and the prompt before."""
    variants = [name for name in ATTENTION if name != "standard"]
    table = Table(
        "decoding", "variant", "prompt of 2048", "a token", "a token / standard", "largest difference in logits"
    )
    tokens = torch.randint(0, 100, (1, CONTEXT + 1), generator=generator(0))
    models, caches, prompts, differences = {}, {}, {}, {}
    for name in ("standard", *variants):
        config = DecoderConfig(
            n_layers=1, d_model=512, n_heads=HEADS, d_vocab=100, n_ctx=CONTEXT + TOKENS + 8, attention=name
        )
        models[name] = model = Decoder(config, generator(0)).eval()
        prompts[name] = rounds({"": lambda model=model: model.extend(tokens[:, :-1], model.cache(1))}, 5)[""]
        caches[name] = model.cache(1)
        model.extend(tokens[:, :-1], caches[name])
        last = model.extend(tokens[:, -1:], caches[name])
        differences[name] = (last[0, 0] - model(tokens)[0, -1]).abs().max().item()
    one = {name: lambda name=name: models[name].extend(tokens[:, :1], caches[name]) for name in models}
    taken = rounds(one, TOKENS)
    for name in models:
        slower = ratios(taken, name, "standard")
        table.add(
            name, milliseconds(prompts[name]), milliseconds(taken[name]), spread(slower), f"{differences[name]:.0e}"
        )
        if "chacal" in name:
            table.ask(f"a token of {name} / standard", statistics.median(slower), most=1.15)
            table.ask(f"{name}, decoded against the full forward pass", differences[name], most=1e-5)
    return table


HERE = __file__.rsplit("/", 1)[0]

if __name__ == "__main__":
    main(__doc__, training, growth, decoding)
