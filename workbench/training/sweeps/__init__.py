"""Sweeps: many runs from one file, on this machine's cores or on a Ray cluster.

    preset = "sort-standard"
    retries = 2                            # further attempts at a run whose worker or node died

    [settings]                             # fields of all runs, as in `workbench train`
    steps = 300
    task.max_length = 12

    [grid]                                 # each variant has a run for every combination
    seed = [0, 1, 2]
    model.n_layers = [1, 2]

    [[variants]]                           # without variants, the preset is the only one
    name = "standard"

    [[variants]]
    name = "tempered"
    preset = "sort-tempered"               # a variant may have its own preset, settings and grid
    grid.model.attention.beta = [0.5, 1.0]

The folder holds a run folder for each run, such as `tempered-seed=0-n_layers=1-beta=0.5`, and `results.parquet`.
"""

from workbench.training.sweeps.driver import output_folder, sweep

__all__ = ["output_folder", "sweep"]
