"""A step of a fine-tuning: its learner, its loss, and γ of ChaCAL learned beside the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from workbench import runs
from workbench.models.attention.learned_chacal import LearnedChacalAttention
from workbench.objectives.next_token import next_token
from workbench.runs.weights import without_prefix
from workbench.tasks import Batch
from workbench.training.optimizer_step import OptimizerStep
from workbench.training.state import Figures, Learner, State
from workbench.util.seeds import generator, global_draws

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from workbench.training.finetune import FineTuning


class LearnedGammas(nn.Module):
    """The γ of each layer that has ChaCAL, as parameters beside the model's.

    They train with the model and are no part of it: once they are learned, they are settings of its attention.

    Args:
        model: a causal language model of Transformers.
        settings: those of `chacal`; `gamma` is what γ begins with.
        per: what has a γ of its own.
        layers: the layers that have ChaCAL; by default all.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        settings: Mapping[str, Any],
        per: Literal["layer", "head"],
        layers: Iterable[int] | None = None,
    ) -> None:
        super().__init__()
        config = model.config.get_text_config(decoder=True)
        n_ctx, n_heads = int(getattr(config, "max_position_embeddings", None) or 2048), config.num_attention_heads
        given = {name: value for name, value in settings.items() if name != "variant"} | {"per": per}
        chosen = range(config.num_hidden_layers) if layers is None else layers
        self.layers = nn.ModuleDict({str(i): LearnedChacalAttention.for_model(n_ctx, n_heads, **given) for i in chosen})

    def __getitem__(self, layer: int) -> LearnedChacalAttention:
        variant = self.layers[str(layer)]
        assert isinstance(variant, LearnedChacalAttention)
        return variant

    def settings(self, layer: int) -> dict[str, Any]:
        """What was learned, as settings of a layer's attention."""
        variant = self[layer]
        about = {"diagonal": variant.settings.diagonal}
        if variant.gamma is not None:
            return {"variant": "chacal", "gamma": variant.gamma, **about}
        return {"variant": "learned_chacal", "per": "head", "gammas": variant.gammas.tolist(), **about}

    def figures(self) -> dict[str, Tensor]:
        """The mean γ, and that of each layer, to log."""
        each = {int(name): self[int(name)].gammas.detach().mean().double() for name in self.layers}
        return {
            "gamma": torch.stack([*each.values()]).mean(),
            **{f"gamma/layer={i}": gamma for i, gamma in each.items()},
        }


class FinetuneLearner(Learner):
    """A learner whose model is one of Hugging Face."""

    def fill(self, state: State) -> None:
        """Put the weights of a state into the model. Raises ValueError if they are those of another model."""
        weights = without_prefix(runs.MODEL, state.tensors)
        expected = runs.weights_of(self.model)
        for name in sorted(expected.keys() | weights.keys()):
            if name not in expected or name not in weights or expected[name].shape != weights[name].shape:
                raise ValueError(f"{state.path} is no state of this model: {name} is missing, or has another shape")
        self.model.load_state_dict(weights, strict=False)


class FinetuneStep(OptimizerStep):
    """The optimizer step of a fine-tuning, with the attention of that step."""

    def __init__(self, tuning: FineTuning) -> None:
        super().__init__(tuning.config, tuning.learner, tuning.processes)
        self.tuning = tuning

    def __call__(self, batches: Sequence[Batch], rate: float) -> Figures | None:
        tuning, step = self.tuning, self.learner.step
        if self.config.gamma_warmup:
            tuning.attend(step)
        figures = super().__call__(batches, rate)
        if figures is None:
            return None
        if tuning.gammas is not None:
            return figures | tuning.gammas.figures()
        gamma = self.config.attention_at(step).get("gamma")
        return figures if gamma is None else {**figures, "gamma": gamma}

    def backward(self, batch: Batch, share: float) -> tuple[Tensor, Figures]:
        """Add the gradient of the loss: that of the next token, and Seq-VCR of a layer's output where it is wanted.

        The output of the last layer is taken after the final norm.
        """
        tuning, rank = self.tuning, self.processes.rank
        place = (self.learner.step, rank) if rank else (self.learner.step,)
        with global_draws(generator(self.config.seed, "dropout", *place).initial_seed(), self.learner.device):
            output = tuning.model(batch.tokens, use_cache=False, output_hidden_states=tuning.seq_vcr is not None)
            loss = of_next = next_token(output.logits, batch)
            figures: Figures = {}
            if tuning.seq_vcr is not None:
                kept = {name: output.hidden_states[int(name.split(".")[1]) + 1] for name in tuning.seq_vcr.needs}
                penalty, figures = tuning.seq_vcr(output.logits, kept, batch)
                loss = of_next + penalty
            (loss * share).backward()  # type: ignore[no-untyped-call]
        return of_next.detach(), figures
