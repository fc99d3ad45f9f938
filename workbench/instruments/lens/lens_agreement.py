"""Agreement of a lens: how often the token decoded from each layer is the model's final one, and the right one.

Shows: the layer from which on the top token no longer changes. Does not show: how sure it was there (see `logit_lens`
for the KL), or that later layers use it; where few tokens are possible, agreement by chance is high. Control: a
re-initialised model.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.capture import Capture
from workbench.instruments.lens import logit_lens
from workbench.instruments.lens.affine import AffineLens
from workbench.instruments.lens.logit_lens import readings
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.shared import said_of_sample
from workbench.measurement import Measurement

CONTROLS = ("untrained",)
AGAINST = ("final", "target")

needs = logit_lens.needs
why_not = logit_lens.why_not


def measure(capture: Capture, *, lens: AffineLens | None = None, points: Sequence[str] | None = None) -> Measurement:
    """Share of scored positions at which the lens is right: dims `against`, `point` (hook name), `example`.

    `final`: the lens's top token is that of the model's output. `target`: the lens is right by the task's measure,
    `workbench.tasks.correct`. NaN where an example scores no position.

    Args:
        capture: with the activations of `needs`.
        lens: a tuned or a Jacobian lens; by default the logit lens.
        points: hook names of residuals, by default those of `needs`.
    """
    subject = capture.subject
    points = from_embedding(subject) if points is None else list(points)
    values = readings(capture, points, lens)[..., 1:].nanmean(2).movedim(-1, 0).numpy()
    measured = Measurement(
        name="Agreement of the lens",
        values=values,
        dims=("against", "point", "example"),
        coords={"against": AGAINST, "point": points},
        units="share",
        settings={"model": subject.name, "lens": "logit" if lens is None else lens.NAME},
        caption="Share of scored positions at which the token decoded from the residual is the model's final one, and "
        "the target. It does not say how sure the lens is.",
    )
    return said_of_sample(measured, capture)
