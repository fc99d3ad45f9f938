"""The residual on named directions of one's own, beside the same directions turned at random."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject, visit
from workbench.capture.directions import Directions
from workbench.inspection.result import Inspected
from workbench.instruments.residual.projection import from_embedding, top_tokens
from workbench.measurement import Measurement
from workbench.measurement.numbers import number
from workbench.measurement.places import point_name
from workbench.util.seeds import generator

MOST, SEQUENCES, BATCH, TOLD = 32, 64, 16, 5
TURNED = "turned at random"


@dataclass(frozen=True)
class OwnBasis:
    """The residual of a model on a basis of one's own.

    Attributes:
        directions: the basis.
        table: the largest components of one sequence (`projection.top_tokens`).
        measured, control: each direction's mean cosine with the residual, dims `direction`, `point`: of the directions,
            and of the same turned at random together; None where there are more than `MOST`.
    """

    directions: Directions
    table: Measurement
    measured: Measurement | None
    control: Measurement | None

    @property
    def says(self) -> str:
        """The directions with the largest mean cosine, beside the control, where they were found or at the end."""
        if self.measured is None or self.control is None:
            return f"{self.directions.name}: numbers of each direction are for up to {MOST}, not {len(self.directions)}"
        points = self.measured.coords["point"]
        point = self.directions.point if self.directions.point in points else points[-1]
        at, control = (each.select(point=point) for each in (self.measured, self.control))
        order = abs(at.values).argsort()[::-1][:TOLD].tolist()
        most = ", ".join(f"{at.coords['direction'][i]} {number(float(at.values[i]))}" for i in order)
        return (
            f"{self.directions.name}: mean cosine with the residual, {point_name(point)}: {most}; {TURNED} at most "
            f"{number(float(abs(control.values).max()))} in size"
        )

    def save(self, folder: Path) -> None:
        """Write the measurements."""
        folder.mkdir(parents=True, exist_ok=True)
        self.table.save(folder, "largest")
        for stem, measured in (("cosines", self.measured), ("cosines.turned", self.control)):
            if measured is not None:
                measured.save(folder, stem)


def own_basis(inspected: Inspected, path: str | Path, *, n: int, seed: int) -> OwnBasis:
    """Project a model's residual on the directions of a file.

    Args:
        inspected: the model, measured already; of its layers those that were looked at.
        path: see `capture.directions`.
        n: sequences to average over, at most `SEQUENCES`.
        seed: of these sequences and of the control.

    Raises:
        ValueError: as `Directions.read`.
    """
    subject = inspected.example.subject
    directions = Directions.read(path, subject.encoder.shape[1])
    points = from_embedding(subject)
    seen = replace(inspected.example, subject=replace(subject, directions=directions))
    top = min(5, len(directions))
    table = top_tokens(
        seen, top=top, points=[p for p in points if p in seen.activations], bases=[directions.name], how="cosine"
    )
    if len(directions) > MOST:
        return OwnBasis(directions, table, None, None)
    width = directions.vectors.shape[1]
    turn, _ = torch.linalg.qr(torch.randn(width, width, generator=generator(seed, TURNED)))
    sides = torch.stack([directions.vectors, directions.vectors @ turn])
    of_side = _cosines(inspected, subject, points, sides, min(n, SEQUENCES), seed)
    measured, control = (
        Measurement(
            name="Cosine with directions of one's own",
            values=values.double().numpy(),
            dims=("direction", "point", "example"),
            coords={"direction": directions.names, "point": points},
            units="cosine",
            settings={"model": subject.name, "basis": directions.name, "found at": directions.point},
            caption="Mean cosine of the residual with each direction over positions. The control is the same "
            "directions turned at random together. A large one does not show that the model uses the direction.",
        ).mean("example")
        for values in of_side
    )
    return OwnBasis(directions, table, measured, control)


@torch.no_grad()
def _cosines(
    inspected: Inspected,
    subject: Subject,
    points: list[str],
    sides: Float[Tensor, "side direction d"],
    n: int,
    seed: int,
) -> Float[Tensor, "side direction point example"]:
    """Mean cosines over the positions of each sequence."""
    task, model = subject.task, inspected.run.model()
    tokens = task.sample(n, generator(seed, "directions"), split="test").tokens
    real = torch.arange(tokens.shape[1]) < task.lengths(tokens)[:, None]
    unit, found = F.normalize(sides, dim=-1), torch.empty(*sides.shape[:2], len(points), len(tokens))
    for rows in torch.arange(len(tokens)).split(BATCH):

        def see(point: str, x: Tensor, rows: Tensor = rows) -> None:
            cosines = F.normalize(x.float(), dim=-1) @ unit.to(x.device).mT[:, None]  # [side, batch, pos, direction]
            inside = real[rows].to(x.device)[..., None]
            mean = (cosines * inside).sum(-2) / inside.sum(-2)
            found[:, :, points.index(point), rows] = mean.mT.cpu()

        visit(model, tokens[rows], points, see)
    return found
