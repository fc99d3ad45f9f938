"""The attention variant `template_name`: an example that works; every line marked ← is its own, and to be changed."""

from workbench.models.attention import base


class TemplateName(base.Attention):
    """sigmoid(q kᵀ / sqrt(d_head) + bias − ln n) v, n the keys up to the query; rows need not sum to 1. ←"""

    name = "template_name"

    class Settings(base.Settings):
        bias: float = 0.0  # ← added to every score

    def pattern(self, q, k, at=None):  # scores of later keys are −inf, so that their weight is 0
        n_keys = base.query_positions(q, k, at).unsqueeze(-1) + 1  # ←
        return (self.scores(q, k, at) + self.settings.bias - n_keys.log().to(q.dtype)).sigmoid()  # ←


ATTENTION = {"template_name": TemplateName}
