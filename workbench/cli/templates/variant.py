"""The attention variant `template_name`: sigmoid in place of softmax."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from workbench.models.attention import base


class TemplateName(base.Attention):
    """sigmoid(q kᵀ / sqrt(d_head) + bias − ln n) v, n the keys up to the query; rows need not sum to 1."""

    name = "template_name"

    class Settings(base.Settings):
        """Settings of `template_name`."""

        bias: float = Field(0.0, description="added to every score")

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        """The scores are −inf where a key comes after its query, so that its weight there is 0."""
        n_keys = base.query_positions(q, k, at).unsqueeze(-1) + 1
        return (self.scores(q, k, at) + self.settings.bias - n_keys.log().to(q.dtype)).sigmoid()


ATTENTION = {"template_name": TemplateName}
