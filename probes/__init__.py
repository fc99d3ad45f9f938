"""What can be decoded from a residual, and how much to believe it."""

from probes.linear import Probe, fit, probe_run

__all__ = ["Probe", "fit", "probe_run"]
