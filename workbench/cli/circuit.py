"""`workbench circuit`: which edges of a model carry the answer, on pairs of questions that differ in one thing."""

from __future__ import annotations

import argparse

from workbench.cli.options import add_count, add_out, add_run, add_seed
from workbench.cli.output import say, warn
from workbench.cli.parser import Commands, add_command

PAIRS = 64


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="which edges of a model carry the answer, on pairs that differ in one thing",
        description="Draw pairs of questions that differ in one thing, score every edge of the model on half of them, "
        "and test on the other half how much of the answer the circuit of the best edges keeps. Beside it: what is "
        "left without the circuit, pairs that change nothing relevant, and how far circuits of two halves agree.",
    )
    add_run(parser)
    parser.add_argument("pairs", nargs="?", metavar="PAIRS", help="what is changed (default: the task's first kind)")
    add_count(parser, f"pairs (default: {PAIRS})", PAIRS)
    parser.add_argument("--metric", default="logit_difference", help="logit_difference, probability or kl")
    parser.add_argument("--method", default="eap_ig", help="eap_ig, eap or path_patching, which is exact and slow")
    parser.add_argument(
        "--edges", type=int, metavar="N", help="the circuit's size (default: the fewest that keep 90 %%)"
    )
    parser.add_argument("--step", type=int, help="of a checkpoint (default: the end)")
    add_seed(parser, "seed of the pairs")
    add_out(parser, "write the circuit as JSON and Graphviz there, and the numbers")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.circuits.summary import find_circuit, on_pairs
    from workbench.runs import load_run
    from workbench.util.files import check_free
    from workbench.util.seeds import generator

    if options.out is not None:
        check_free(options.out)
    opened = load_run(options.run)
    task, draws = opened.task(), generator(options.seed, "circuit")
    given = {"kind": options.pairs, "metric": options.metric, "name": opened.name_at(options.step)}
    comparison, control, why = on_pairs(opened.hooked(options.step), task, options.n, draws, **given)
    if control is None:
        warn([f"no control: {why}"])
    found = find_circuit(comparison, control, draws, method=options.method, size=options.edges)
    say(found.text())
    if options.out is not None:
        found.save(options.out)
        say(f"\nthe circuit and its numbers: {options.out}")
