"""Train small transformers on algorithmic tasks, then see how they do it.

    run = workbench.train("chain-chacal", out="runs/chain")   # or workbench.load_run("runs/chain")
    report = workbench.inspect(run)
    report.figure(), report.table(), report.says, report.json()

    hooked = run.hooked()                                     # a TransformerLens bridge
    logits, cache = hooked.run_with_cache(run.batch(8).tokens)

Each command of `workbench --help` is a function of its name. What `inspect`, `probe`, `circuit`, `patch`, `heads`,
`study`, `table` and `runs_table` return draws itself (`figure()`), tabulates itself (`table()`), puts itself in words
(`says`) and into JSON (`json()`), which is what the command prints with `--json`; `check` and `bench` do all but draw.

To train
    train         a preset or a config, into a run folder
    resume        go on with a run, a stack of seeds or a fine-tuning that was stopped
    finetune      train a Hugging Face model on a text or a task with another attention
    sweep         every run of a sweep file
    compile       a model whose mechanism is known, as a run folder

To open
    load_run      a run folder
    load_model    a Hugging Face model
    save_model    a module of your own, as a run folder
    export        a run as one folder or zip, for Hugging Face, or as a page; for TransformerLens it is run.hooked()
    import_       a run folder from what `export` wrote
    push, pull    a run to and from the Hugging Face Hub

To measure
    inspect       runs, Hugging Face models on a text, or a model in memory: everything that applies; two are compared
    probe         what can be decoded, and whether it is used
    circuit       which edges carry the answer
    patch         how much of the answer each part brings back, by layer and position
    heads         which head does what, and what is lost without it
    check         whether a hooked model is the model, and edits reach what it gives out
    generate      what a model writes under edits, beside what it writes without them
    study         a claim of the papers, or a question of your own
    bench         which methods find what is known to be there, how often, and how sure
    table         results by settings, with intervals over seeds
    runs_table    the runs under a folder (`workbench runs`; `workbench.runs` is the room of run folders)

To look
    explore       the explorer, in a browser
    mcp           the same for a program that speaks the Model Context Protocol, such as an agent
    see           a run's activations on one batch
    for_paper     a figure as a PDF, SVG or PNG of a paper's width
    example       a held-out input of a run's task
    data          a task's sequences
    list          what exists: presets, tasks, variants, instruments, …

To build with
    Decoder, DecoderConfig    a model
    hook          any model of this library as a TransformerLens bridge
    generator     a random generator of a seed
    new           the file of a part of your own
    load_plugins  parts of your own, from files

The rooms, in which all else is: app, benchmark, capture, circuits, cli, experimental, figures, inspection,
instruments, interventions, judgement, measurement, mechanisms, models, objectives, probes, report, runs, sharing,
studies, tasks, testing, training, util. Each is imported on first use, as is everything here, so that
`import workbench` is fast.
"""

# Nothing is imported here, not even `typing`: `python -m workbench` has the current folder on its module path.
# ruff: noqa: F401
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from workbench.benchmark.run import bench
    from workbench.cli.data import data
    from workbench.cli.explore import explore
    from workbench.cli.export import export
    from workbench.cli.list import listed as list
    from workbench.cli.mcp import mcp
    from workbench.cli.new import new
    from workbench.cli.runs import runs_table
    from workbench.figures.for_paper import for_paper
    from workbench.inspection import see
    from workbench.inspection.examples import example
    from workbench.models import Decoder, DecoderConfig
    from workbench.models.hooked import hook
    from workbench.models.pretrained import load_model
    from workbench.probes.report import probe
    from workbench.report import inspect
    from workbench.report.circuits import circuit
    from workbench.report.generation import generate
    from workbench.report.heads import heads
    from workbench.report.model_check import check
    from workbench.report.patching import patch
    from workbench.report.results_table import table
    from workbench.runs import load_run, save_model
    from workbench.runs.compiled import compile_run as compile
    from workbench.sharing import pull, push
    from workbench.sharing import unpack as import_
    from workbench.studies import run_study as study
    from workbench.training import sweep, train
    from workbench.training.finetune import finetune
    from workbench.training.resume_any import resume
    from workbench.util.plugins import load_plugins
    from workbench.util.seeds import generator

_HOMES = {
    "Decoder": "workbench.models",
    "DecoderConfig": "workbench.models",
    "bench": "workbench.benchmark.run",
    "check": "workbench.report.model_check",
    "circuit": "workbench.report.circuits",
    "compile": "workbench.runs.compiled:compile_run",
    "data": "workbench.cli.data",
    "example": "workbench.inspection.examples",
    "explore": "workbench.cli.explore",
    "export": "workbench.cli.export",
    "finetune": "workbench.training.finetune",
    "for_paper": "workbench.figures",
    "generate": "workbench.report.generation",
    "generator": "workbench.util.seeds",
    "heads": "workbench.report.heads",
    "hook": "workbench.models.hooked",
    "import_": "workbench.sharing:unpack",
    "inspect": "workbench.report",
    "list": "workbench.cli.list:listed",
    "load_model": "workbench.models.pretrained",
    "load_plugins": "workbench.util.plugins",
    "load_run": "workbench.runs",
    "mcp": "workbench.cli.mcp",
    "new": "workbench.cli.new",
    "patch": "workbench.report.patching",
    "probe": "workbench.probes.report",
    "pull": "workbench.sharing",
    "push": "workbench.sharing",
    "resume": "workbench.training.resume_any",
    "runs_table": "workbench.cli.runs",
    "save_model": "workbench.runs",
    "see": "workbench.inspection",
    "study": "workbench.studies:run_study",
    "sweep": "workbench.training",
    "table": "workbench.report.results_table",
    "train": "workbench.training",
}
_FORMER = {"inspect_model": ("workbench.inspection", "inspect")}
"""A former name -> where it is, and the name that takes its place; gone in the next version."""
_ELSEWHERE = {
    "bench": "benchmark_methods evaluate_methods",
    "check": "verify validate",
    "circuit": "acdc attribution_patching eap find_circuit",
    "explore": "dashboard gui launch serve ui",
    "export": "save save_pretrained to_hf to_hugging_face",
    "for_paper": "savefig save_fig save_figure save_pdf to_pdf write_image",
    "finetune": "fine_tune",
    "generate": "sample",
    "inspect": "analyse analyze evaluate measure run_instruments",
    "inspect([a, b])": "compare compare_runs diff",
    "load_model": "from_pretrained load_hf load_huggingface load_pretrained",
    "load_run": "load open open_run read_run",
    "load_run(path).hooked()": "get_model hooked hooked_model load_hooked",
    "patch": "activation_patching path_patching",
    "probe": "fit_probe fit_probes linear_probe train_probe train_probes",
    "resume": "continue_ continue_training continue_run",
    "runs_table": "find_runs list_runs",
    "see": "activations cache run_with_cache",
    "study": "replicate reproduce run_study",
    "sweep": "grid grid_search train_grid",
    "table": "compare_seeds results results_table summarise summarize",
}
"""What it is here -> names under which others look for it, of which an error tells."""


def __dir__() -> "Iterable[str]":
    from pkgutil import iter_modules

    return [*_HOMES, *(room.name for room in iter_modules(__path__) if room.ispkg)]


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _HOMES:
        home, _, attribute = _HOMES[name].partition(":")
        return getattr(import_module(home), attribute or name)
    if name in __dir__():
        return import_module(f"workbench.{name}")
    if name in _FORMER:
        from warnings import warn

        home, today = _FORMER[name]
        warn(f"workbench.{name} is now workbench.{today}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)
    if name.startswith("__"):  # Python asks for some, and takes no for an answer
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    from workbench.util.lookup import lookup

    meant = {guess: today for today, guesses in _ELSEWHERE.items() for guess in guesses.split()}
    try:
        return lookup(dict.fromkeys(__dir__()), name, "name in workbench", meant)
    except ValueError as error:
        raise AttributeError(str(error)) from None
