"""`workbench list`: what exists."""

from __future__ import annotations

import argparse

from workbench.cli.output import say

LISTED = {
    "presets": "models with their tasks, ready to train",
    "fields": "every setting of a training run",
    "tasks": "what can be learned, with its settings",
    "variants": "kinds of attention, with their settings",
    "objectives": "terms of the loss, with their settings",
    "compiled": "models whose weights are worked out, not learned",
    "instruments": "what can be measured, with its settings",
    "mechanisms": "claims about how a task is solved, with their settings",
    "probes": "what can be asked of a residual",
}
"""What can be listed -> what that is, in a line."""


def list_names(options: argparse.Namespace, _: list[str]) -> None:
    if options.what is None:
        width = max(map(len, LISTED))
        say("\n".join(f"workbench list {what:{width}}  {words}" for what, words in LISTED.items()))
        return
    if options.what == "probes":
        from workbench.probes import PRESETS

        for name, preset in PRESETS.items():
            say(f"{name:17} {', '.join(preset.tasks) or 'any task'}: {preset.question}")
        return
    from workbench.cli.catalogue import describe

    say(describe(options.what))
