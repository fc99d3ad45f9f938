"""Sweeps: many runs from one file, on this machine's cores or on a Ray cluster.

    preset = "sort-standard"
    retries = 2                            # attempts more, for a run whose worker or node died

    [settings]                             # what all runs have in common, as in `workbench train`
    steps = 300
    task.max_length = 12

    [grid]                                 # every combination is a run of each variant
    seed = [0, 1, 2]
    model.n_layers = [1, 2]

    [[variants]]                           # without any, the preset is the one variant
    name = "standard"

    [[variants]]
    name = "tempered"
    preset = "sort-tempered"               # a variant may have another preset, settings and more of a grid
    grid.model.attention.beta = [0.5, 1.0]

The folder holds a run folder for each run, such as `tempered-seed=0-n_layers=1-beta=0.5`, and `results.parquet`.
"""

from workbench.training.sweeps.driver import output_folder, preview, sweep

__all__ = ["output_folder", "preview", "sweep"]
