"""`capture`: a model's named activations on a batch, kept in memory or handed over one by one as they are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.capture.directions import Directions
from workbench.models import AnyHooked, AnyModel, Decoder, OwnModel
from workbench.models.attention import Attention
from workbench.models.facts import LOGITS, Facts, LogitTransform
from workbench.models.own_model import SeenPattern
from workbench.tasks import Batch, Task, Truth, own_sequences
from workbench.tasks.answers import Answers
from workbench.util.seeds import generator


@dataclass(frozen=True)
class Subject:
    """What instruments need to know of a model beside its activations.

    Attributes:
        name: what to call the model in captions (the run's folder name).
        task: what it was trained on.
        encoder: `[d_vocab, d_model]`, rows of the embedding: the encoder basis.
        decoder: `[d_vocab, d_model]`, columns of the unembedding: the decoder basis.
        final_norm: the norm before the unembedding, or the identity.
        attention: the attention variant of each layer; `read(pattern, v)` says what a layer does with a pattern.
        unembed_bias: `[d_vocab]`, what the unembedding adds; None where it adds nothing.
        logits: what becomes of the logits behind the unembedding.
        no_decoding: why a residual cannot be read as the model reads its last one; None where it can.
        watched_only: hook points of which the output reads nothing: an edit there is refused.
        generate: continues each prompt of a list greedily by so many tokens, as `Decoder.generate`; None where nothing
            can be decoded.
        no_pattern: why attention patterns cannot be seen; None where they can.
        model: the bare model, for what looks at its weights; None where there are activations alone.
        parallel: whether attention and MLP of a block read the same residual, so that there is none between them.
        attention_only: whether layers have no MLP: the residual after attention is then the one after the layer.
        chosen: the layers to look at, 0-based, in order; None for all. The embedding and the output are always there.
        directions: a basis of one's own beside the model's; None where there is none.
    """

    name: str
    task: Task
    encoder: Float[Tensor, "d_vocab d_model"]
    decoder: Float[Tensor, "d_vocab d_model"]
    final_norm: Callable[[Tensor], Tensor]
    attention: tuple[Attention, ...]
    unembed_bias: Float[Tensor, " d_vocab"] | None = None
    logits: LogitTransform = LogitTransform()  # noqa: RUF009 (it is frozen)
    no_decoding: str | None = None
    watched_only: tuple[str, ...] = ()
    generate: Callable[[Sequence[Tensor], int], Sequence[Tensor]] | None = None
    no_pattern: str | None = None
    model: AnyModel | None = None
    parallel: bool = False
    attention_only: bool = False
    chosen: tuple[int, ...] | None = None
    directions: Directions | None = None

    @classmethod
    def of(cls, model: AnyModel, task: Task, name: str) -> Subject:
        """Collect these facts about a decoder or a model of one's own (the bare one, not its hooked copy)."""
        bias = getattr(model.unembedding, "bias", None)
        facts = model.facts if isinstance(model, OwnModel) else Facts(1)
        return cls(
            name=name,
            task=task,
            encoder=model.token_embedding.weight.detach(),
            decoder=model.unembedding.weight.detach(),
            final_norm=model.final_norm,
            attention=model.attention,
            unembed_bias=None if bias is None else bias.detach(),
            generate=model.generate,
            logits=facts.logits,
            no_decoding=facts.no_decoding,
            watched_only=facts.watched_only,
            no_pattern=facts.no_pattern,
            model=model,
            parallel=facts.parallel,
            attention_only=isinstance(model, Decoder) and not model.config.d_mlp,
        )

    @property
    def residuals(self) -> list[str]:
        """Hook names of the residual after attention (`resid_mid`, where there is one) and after the MLP, per layer.

        Layers without an MLP have the first alone.
        """
        exists = {
            "hook_resid_mid": self.attention_only or not self.parallel,
            "hook_resid_post": not self.attention_only,
        }
        return [f"blocks.{layer}.{name}" for layer in self.layers for name in exists if exists[name]]

    @property
    def n_layers(self) -> int:
        return len(self.attention)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers to look at, in order: those chosen, else all."""
        return tuple(range(self.n_layers)) if self.chosen is None else self.chosen

    def only(self, layers: Iterable[int]) -> Subject:
        """The same model, of which only these layers are looked at. Raises ValueError if there is no such layer."""
        chosen = tuple(sorted(set(layers)))
        wrong = next((layer for layer in chosen if not 0 <= layer < self.n_layers), None)
        if wrong is not None or not chosen:
            raise ValueError(f"there is no layer {wrong}; the layers of {self.name} are 0 to {self.n_layers - 1}")
        return replace(self, chosen=chosen)


def sample_truth(subject: Subject) -> Truth:
    """The truth of a few sequences of the task: it shows which labels the task has, and how many hops its graph has."""
    return _sample_truth(subject.task)


@lru_cache(maxsize=32)
def _sample_truth(task: Task) -> Truth:
    return task.truth(task.sample(4, generator(0, "what truth offers")).tokens)


ATTENTION_OUT = "hook_attn_out"

DECODED = "decoded_answer"
"""The name under which a capture holds the answers that the model writes by greedy decoding."""


@dataclass(frozen=True)
class Capture:
    """Named activations of one batch, with the batch, its truth and the model they came from.

    Attributes:
        activations: TransformerLens hook name -> tensor; residuals `[batch, pos, d_model]`
            (`blocks.0.hook_resid_mid`), patterns `[batch, head, query, key]` (`blocks.0.attn.hook_pattern`), logits
            `[batch, pos, class]` (under `unembed.hook_out`, but as the model gives them out, which may have scaled or
            capped what the hook point of that name sees). `decoded_answer` is no hook: `[batch, answer]`, the tokens of
            each answer as the model writes it (see `_decoded_answers`).
        batch: what the model ran on.
        subject: facts of the model.
        given_truth: the truth to compare the activations with, if it is not that of the batch's own tokens.
    """

    activations: Mapping[str, Tensor]
    batch: Batch
    subject: Subject
    given_truth: Truth | None = None

    @classmethod
    def of(
        cls,
        activations: Mapping[str, Tensor],
        tokens: Int[Tensor, "batch pos"],
        *,
        encoder: Float[Tensor, "d_vocab d_model"],
        decoder: Float[Tensor, "d_vocab d_model"],
        final_norm: Callable[[Tensor], Tensor] = nn.Identity(),  # noqa: B008 (it has no state)
        unembed_bias: Float[Tensor, " d_vocab"] | None = None,
        task: Task | None = None,
        name: str = "own model",
    ) -> Capture:
        """Activations that were captured elsewhere, of any model, for every instrument that needs no more than them.

        Args:
            activations: TransformerLens hook name -> tensor (see `activations` above); the number of layers is that of
                the blocks named.
            tokens: what the model ran on.
            encoder, decoder: the rows of the embedding, and the columns of the unembedding.
            final_norm: the norm before the unembedding.
            unembed_bias: what the unembedding adds.
            task: what the tokens are sequences of; by default nothing is known of them (see `tasks.own_sequences`).
            name: what to call the model.

        Raises:
            ValueError: if no activation is of a block, or shapes or tokens do not fit each other.
        """
        n_layers = 1 + max((int(key.split(".")[1]) for key in activations if key.startswith("blocks.")), default=-1)
        if n_layers < 1:
            raise ValueError(
                "no activation is of a block: names are TransformerLens's, such as blocks.0.hook_resid_mid"
            )
        for key, tensor in activations.items():
            if tensor.shape[0] != tokens.shape[0]:
                raise ValueError(f"{key} is of {tensor.shape[0]} sequences, and there are {tokens.shape[0]}")
        task = task or own_sequences(tokens, len(encoder))
        attention = tuple(SeenPattern() for _ in range(n_layers))
        subject = Subject(name, task, encoder, decoder, final_norm, attention, unembed_bias)
        lengths = task.lengths(tokens)
        return cls(activations, Batch.next_token(tokens, 0, lengths - 1), subject)

    @cached_property
    def truth(self) -> Truth:
        """The task's truth for these tokens, computed at first use: it can cost more than the forward pass."""
        return self.subject.task.truth(self.batch.tokens) if self.given_truth is None else self.given_truth

    @cached_property
    def computed(self) -> dict[Any, Tensor]:
        """What was computed of these activations, to be computed once however often it is measured or drawn."""
        return {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.activations:
            raise ValueError(f"{name!r} was not captured; there is: {', '.join(self.activations) or 'nothing'}")
        return self.activations[name]

    @property
    def logits(self) -> Float[Tensor, "batch pos class"]:
        """The main head's logits, if they were captured."""
        return self[LOGITS]


def capture(
    model: AnyHooked | AnyModel, subject: Subject, batch: Batch, names: Iterable[str], truth: Truth | None = None
) -> Capture:
    """Run one batch and keep the named activations (see `visit`), and its answers decoded if `decoded_answer` is named.

    The truth of the batch is computed when it is first asked for; several models on one batch can be given it.

    Raises:
        ValueError: as `visit` and `_decoded_answers`.
    """
    activations: dict[str, Tensor] = {}
    names = set(names)
    visit(model, batch.tokens, names - {DECODED}, activations.__setitem__)
    if DECODED in names:
        activations[DECODED] = _decoded_answers(subject, batch)
    return Capture(activations, batch, subject, truth)


def _decoded_answers(subject: Subject, batch: Batch) -> Int[Tensor, "batch answer"]:
    """The answers that a model writes to a batch's questions by greedy decoding, and before each its own thought.

    The model itself decodes, with its cache: hooks that its hooked copy carries at the moment change nothing here.

    Returns:
        As many tokens of each as the longest right answer has; −2 where it wrote no answer (`tasks.answers`).

    Raises:
        ValueError: if this model cannot decode, or the task's answers do not continue its questions.
    """
    if subject.generate is None:
        raise ValueError(f"{subject.name} cannot decode: its Subject has no `generate`")
    answers = Answers.of(subject.task, batch)
    if not len(answers):
        return answers.tokens
    device = subject.encoder.device
    written = subject.generate([prompt.to(device) for prompt in answers.prompts], answers.n_new)
    return answers.read(torch.stack([row[len(row) - answers.n_new :].cpu() for row in written]))


def visit(
    model: AnyHooked | AnyModel,
    tokens: Int[Tensor, "batch pos"],
    names: Iterable[str],
    see: Callable[[str, Tensor], None],
    *,
    gradients: bool = False,
) -> None:
    """Run one batch and hand over each named activation when it is computed; the forward pass stops after the last.

    No other activation is kept, and neither are those handed over, unless `see` keeps them.

    Args:
        model: the hooked model; or the decoder itself, which is faster and has no more than `seen_without_hooks`.
            A model of one's own is hooked first.
        tokens: its input.
        names: TransformerLens hook names.
        see: called with a name and its activation, once for each name, in the order of the forward pass.
        gradients: whether later activations can be differentiated by earlier ones.

    Raises:
        ValueError: if a name is not one of the model's hook points.
    """
    names = set(names)
    with torch.set_grad_enabled(gradients):
        if isinstance(model, Decoder):
            _visit_decoder(model, tokens, names, see)
        elif isinstance(model, OwnModel):
            _visit_hooked(model.hooked(), tokens, names, see)
        elif names:
            _visit_hooked(model, tokens, names, see)


def seen_without_hooks(model: Decoder) -> list[str]:
    """What a decoder itself shows: the residual, what each attention layer writes to it, and the logits."""
    written = [f"blocks.{layer}.{ATTENTION_OUT}" for layer in range(len(model.layers))]
    return [*model.activation_names, *written, LOGITS]


def _visit_decoder(model: Decoder, tokens: Tensor, names: set[str], see: Callable[[str, Tensor], None]) -> None:
    exists = seen_without_hooks(model)
    unknown = sorted(names - {*exists})
    if unknown:
        raise ValueError(f"a decoder has no {unknown[0]!r} (its hooked copy may); there is: {', '.join(exists)}")
    residual, before = names - {LOGITS}, tokens
    was_training = model.training
    model.eval()
    try:
        for name, activation in model.walk(tokens):
            block, _, point = name.rpartition(".")
            if point == "hook_resid_mid" and (written := f"{block}.{ATTENTION_OUT}") in residual:
                see(written, activation - before)
                residual.discard(written)
            before = activation
            if name in residual:
                see(name, activation)
                residual.discard(name)
            if not residual and LOGITS not in names:
                return
        see(LOGITS, model.unembedding(activation))
    finally:
        model.train(was_training)


class _Enough(BaseException):  # not an error, and no handler of errors on the way should take it
    """Raised inside a forward pass to end it once every named activation was handed over."""


def _visit_hooked(model: AnyHooked, tokens: Tensor, names: set[str], see: Callable[[str, Tensor], None]) -> None:
    there = model.hook_dict  # which a bridge makes anew each time
    for name in sorted(names):
        if name not in there:
            n_layers = model.cfg.n_layers
            raise ValueError(f"the model has no hook point {name!r}; its layers are blocks.0 to blocks.{n_layers - 1}")
    waiting = names - {LOGITS}

    def seen(activation: Tensor, hook: Any, name: str) -> None:
        see(name, activation)
        waiting.discard(name)
        if not waiting and LOGITS not in names:
            raise _Enough

    try:
        with model.hooks(fwd_hooks=[(name, partial(seen, name=name)) for name in sorted(waiting)]):
            logits = model(tokens)
    except _Enough:
        return
    if LOGITS in names:
        see(LOGITS, logits)
    assert not waiting, f"never reached: {sorted(waiting)}"
