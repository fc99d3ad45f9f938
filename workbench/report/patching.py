"""What each part of a model brings back of the answer, for people: in words, as maps, as a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench import figures
from workbench.circuits import baselines
from workbench.circuits.comparison import Direction
from workbench.circuits.patch_grid import PatchGrid, patch_grid
from workbench.judgement.words import patching as words
from workbench.measurement import Measurement
from workbench.report.pairs import Answers, open_pairs
from workbench.util.lookup import lookup
from workbench.util.seeds import generator
from workbench.util.settings import as_json
from workbench.util.words import as_it_says

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = {"attn_out": "What attention writes", "mlp_out": "What the MLP writes"}
KINDS = {"resid_pre": "residual", "attn_out": "attention", "mlp_out": "MLPs", "head": "heads"}


@dataclass(frozen=True)
class Patching:
    """A patch grid, for people.

    Attributes:
        grid: what each part brings back, and the strongest places.
        answers: how the model answers the prompts, of a model of Hugging Face.
    """

    grid: PatchGrid
    answers: Answers | None = None
    __repr__ = as_it_says

    @property
    def says(self) -> str:
        """The answers, the gap, the residual's way through the layers, the strongest heads, and the control."""
        grid, comparison = self.grid, self.grid.comparison
        n, low = len(comparison.pairs), grid.gap.ends[0]
        no_gap = grid.gap if low is None or low <= 0 else None
        first = words.of_gap(baselines(comparison).mean(), n, no_gap)
        if self.answers is not None:
            first = f"{self.answers.says}\n\n{first}"
        if no_gap is not None:
            return first
        told = n // 2
        lines = [first, "", *(words.of_path(self._stretches(), told, comparison.direction) if grid.path else [])]
        heads = [(f"head {place.layer}.{place.index}", place.share, place.control) for place in grid.heads]
        if heads or not grid.cut_short:
            lines += words.of_places("The strongest heads, at all positions", heads, told)
        for site in (site for site in PARTS if site in grid.grids):
            places = [(f"layer {p.layer}, {self._position(p.index)}", p) for p in grid.writes if p.site == site]
            if places or not grid.cut_short:
                lines += words.of_places(PARTS[site], [(where, p.share, p.control) for where, p in places], told)
        most = {KINDS[site]: float(np.nanmax(abs(m.mean().values))) for site, m in (grid.control or {}).items()}
        whole = [KINDS[site] for site in grid.grids] if grid.cut_short else []
        return "\n".join([*lines, "", *words.of_choice(n - told, told, grid.method, most, whole)])

    def figure(self, name: str = "patched") -> Any:
        """The maps: of the pairs, `patched`; or of pairs that change nothing relevant, `control`."""
        drawn: dict[str, Callable[[], Any]] = {
            "patched": lambda: figures.patch_grid(self.grid.grids, self.grid.positions)
        }
        if (control := self.grid.control) is not None:
            title = "Control: pairs that change nothing relevant"
            drawn["control"] = lambda: figures.patch_grid(control, self.grid.positions, title)
        return lookup(drawn, name, "figure of a patch grid")()

    def table(self) -> pd.DataFrame:
        """The share that every place brings back, with its interval, and beside it the control's."""
        frames = []
        for site, grid in self.grid.grids.items():
            frame = grid.mean().frame().rename(columns={grid.dims[1]: "index"})
            frame.insert(0, "site", site)
            if self.grid.control is not None:
                frame["control"] = self.grid.control[site].mean().values.reshape(-1)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def json(self) -> str:
        """Every number, the strongest places, and how they were measured."""
        places = [
            {
                "site": p.site,
                "layer": p.layer,
                "index": p.index,
                "share": float(p.share.values),
                "interval": p.share.ends,
                "pairs": int(np.asarray(p.share.n)),
                "control": p.control,
            }
            for p in (*self.grid.path, *self.grid.heads, *self.grid.writes)
        ]
        numbers = {name: measured.to_dict() for name, measured in self.measurements().items()}
        about: dict[str, Any] = {
            "format": "patch/1",
            "model": self.grid.comparison.name,
            "method": self.grid.method,
            "positions": self.grid.positions,
        }
        about |= {} if self.answers is None else {"answers": asdict(self.answers)}
        return as_json({**about, "strongest": places, "measurements": numbers})

    def measurements(self) -> dict[str, Measurement]:
        """Every number that was measured, mean over pairs with its interval, by the name of its file."""
        control = {f"{site}_control": each for site, each in (self.grid.control or {}).items()}
        means = {name: each.mean() for name, each in {**self.grid.grids, **control}.items()}
        return {"baselines": baselines(self.grid.comparison).mean(), **means}

    def save(self, folder: Path) -> None:
        """Write patching.json, each grid as Parquet, CSV and JSON, and the maps as HTML."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "patching.json").write_text(f"{self.json()}\n", encoding="utf-8")
        for stem, measured in self.measurements().items():
            measured.save(folder, stem)
        for name in ("patched", "control")[: 1 + (self.grid.control is not None)]:
            self.figure(name).write_html(folder / f"{name}.html")

    def _position(self, index: int) -> str:
        """A position in words: `position 4 John`, or `the change`."""
        label = self.grid.positions[index]
        return f"position {label}" if label[0].isdigit() else label

    def _stretches(self) -> list[tuple[str, str, Measurement]]:
        """Layers in which the residual is strongest at one position: the layers, the position, the least share."""
        rows = []
        for index, stretch in groupby(self.grid.path, key=lambda place: place.index):
            places = list(stretch)
            layers = [place.layer for place in places]
            named = str(layers[0]) if len(layers) == 1 else f"{layers[0]}-{layers[-1]}"
            rows.append((named, self._position(index), min(places, key=lambda p: float(p.share.values)).share))
        return rows


def patch(
    run: Any,
    kind: str | None = None,
    *,
    pairs: str | Path | None = None,
    n: int | None = None,
    later: bool = False,
    metric: str = "logit_difference",
    direction: Direction = "denoise",
    method: str | None = None,
    step: int | None = None,
    seed: int = 0,
) -> Patching:
    """Patch every part of a model on pairs of questions that differ in one thing.

    Args:
        run: a run or its folder; with `pairs` a model of Hugging Face: loaded, its folder or file, or its name there.
        kind, n, later: what is changed, by default the task's first kind; how many pairs, by default 64; and whether
            the answers behind the first that changes are asked for. Not of a file's pairs.
        pairs: pairs of texts written by hand, JSON lines or CSV of clean, corrupted, answer, wrong; or the name of a
            prompt set (`tasks.prompt_sets`), of which n are drawn.
        metric: a name in `circuits.METRICS`.
        direction: `denoise`, clean parts into the corrupted run; or `noise`, the other way round.
        method: `exact`, a pass for each place; or `estimate`, from the gradient. By default exact where that takes
            a minute at most.
        step: of a run's checkpoint; by default the end.
        seed: of the pairs.

    Raises:
        ValueError: if one of these does not exist or does not fit, there are too few pairs, or both questions of the
            pairs are answered alike.
    """
    draws = generator(seed, "patching")
    about: dict[str, Any] = {"kind": kind, "pairs": pairs, "n": n, "later": later, "step": step, "seed": seed}
    comparison, control, names, answers = open_pairs(run, draws, **about, metric=metric, direction=direction)
    return Patching(patch_grid(comparison, names, control, method=method), answers)
