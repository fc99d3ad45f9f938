"""The tools of `workbench mcp --allow-writing`, which write under the root."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from workbench.cli.mcp_tools import Count, RunName, Seed, Tools
from workbench.util.files import check_within


class WritingTools(Tools):
    """What a client may do on a folder where writing is allowed, beside all that writes nothing."""

    def train(
        self,
        preset: Annotated[str, Field(description="list_parts of `presets` names them")],
        out: Annotated[str, Field(description="the new run folder's path under the root")],
        steps: Annotated[int | None, Field(ge=0, description="default: the preset's")] = None,
        seed: Annotated[int, Field(ge=0)] = 0,
        settings: Annotated[
            dict[str, Any] | None, Field(description="nested, such as {task: {n: 16}}; list_parts of `fields`")
        ] = None,
    ) -> str:
        """Train a preset into a new run folder, and say its accuracy on held-out sequences. Takes seconds to hours."""
        from workbench.tasks import check_files
        from workbench.training import PAPER_PRESETS, PRESETS, preset_config, train
        from workbench.util.lookup import lookup

        place = self.place(out)
        given = {**(settings or {}), "seed": seed} | ({} if steps is None else {"steps": steps})
        own = given.get("task") or {}
        task = {**lookup(PRESETS | PAPER_PRESETS, preset, "preset")["task"], **(own if isinstance(own, dict) else {})}
        check_files(task, place)  # before the config is read, which opens them
        run = train(preset_config(preset, given), out=place, progress=False)
        latest = {name: value for name, value in run.latest().items() if name in ("accuracy", "loss", "test_loss")}
        figures = ", ".join(f"{name} {value:.4g}" for name, value in latest.items())
        return f"trained {out}: {run.step()} steps; {figures}"

    def write_report(
        self,
        run: RunName,
        only: Annotated[list[str] | None, Field(description="instruments and mechanisms; default: all")] = None,
        n: Annotated[Count, Field(description="sequences of each test condition")] = 256,
        seed: Seed = 0,
    ) -> str:
        """Measure a run as inspect does, and write the report and every number into its folder `inspection`."""
        from workbench.report import inspect_runs

        opened = self.opened(run)
        check_within(opened.path / "inspection", self.root)
        report = inspect_runs([opened], n=n, seed=seed, only=only or ())
        assert report.html is not None
        return f"{report.says}\n\nreport: {run}/inspection/{report.html.name}"
