"""Training: a config in, a run folder out. Knows nothing of inspection."""

from workbench.training.loop import resume, train
from workbench.training.member import TrainingError
from workbench.training.presets import PRESETS, preset_config
from workbench.training.stack import train_seeds

__all__ = ["PRESETS", "TrainingError", "preset_config", "resume", "train", "train_seeds"]
