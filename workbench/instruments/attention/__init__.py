"""Instruments of attention as a graph: mass on the task's gold paths, resolvent, rollout, paths, roles of heads."""
