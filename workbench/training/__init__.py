"""Training: a config in, a run folder out; a sweep in, many run folders out. It knows nothing of inspection."""

from workbench.training.loop import resume, train
from workbench.training.paper_presets import PAPER_PRESETS
from workbench.training.presets import PRESETS, SECONDS, preset_config
from workbench.training.resume_seed_stack import resume_seeds
from workbench.training.seed_stack import train_seeds
from workbench.training.state import TrainingError
from workbench.training.sweeps import sweep

__all__ = [
    "PAPER_PRESETS",
    "PRESETS",
    "SECONDS",
    "TrainingError",
    "preset_config",
    "resume",
    "resume_seeds",
    "sweep",
    "train",
    "train_seeds",
]
