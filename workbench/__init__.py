"""Train small transformers on algorithmic tasks, then see how they do it.

    run = workbench.train("chain-chacal", out="runs/chain")   # or workbench.load_run("runs/chain")
    hooked = run.hooked()                                     # a TransformerLens bridge
    logits, cache = hooked.run_with_cache(run.task().sample(8, workbench.generator(0)).tokens)

Everything here is imported on first use, so that `import workbench` is fast.
"""

# Nothing is imported here, not even `typing`: `python -m workbench` has the current folder on its module path.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from workbench.inspection import inspect_model, see
    from workbench.inspection.examples import example
    from workbench.models import Decoder, DecoderConfig
    from workbench.models.hooked import hook
    from workbench.models.pretrained import load_model
    from workbench.runs import load_run, save_model
    from workbench.training import resume, sweep, train
    from workbench.util.plugins import load_plugins
    from workbench.util.seeds import generator

_HOMES = {
    "Decoder": "workbench.models",
    "DecoderConfig": "workbench.models",
    "example": "workbench.inspection.examples",
    "generator": "workbench.util.seeds",
    "hook": "workbench.models.hooked",
    "inspect_model": "workbench.inspection",
    "load_model": "workbench.models.pretrained",
    "load_plugins": "workbench.util.plugins",
    "load_run": "workbench.runs",
    "resume": "workbench.training",
    "save_model": "workbench.runs",
    "see": "workbench.inspection",
    "sweep": "workbench.training",
    "train": "workbench.training",
}

_ROOMS = (
    "capture",
    "figures",
    "inspection",
    "instruments",
    "interventions",
    "measurement",
    "mechanisms",
    "models",
    "objectives",
    "probes",
    "report",
    "runs",
    "tasks",
    "training",
)

__all__ = [
    "Decoder",
    "DecoderConfig",
    "example",
    "generator",
    "hook",
    "inspect_model",
    "load_model",
    "load_plugins",
    "load_run",
    "resume",
    "save_model",
    "see",
    "sweep",
    "train",
]


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"workbench.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
