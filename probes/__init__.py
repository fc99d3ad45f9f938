"""What can be decoded from a residual, and how much to believe it."""

from probes.linear import Probe, fit, probe_layers, probe_run, verdict

__all__ = ["Probe", "fit", "probe_layers", "probe_run", "verdict"]
