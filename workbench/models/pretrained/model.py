"""A causal language model of Hugging Face as a subject: hooked, with its tokenizer, its bases and its final norm."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor
from transformer_lens.factories.architecture_adapter_factory import ArchitectureAdapterFactory
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module, detect_tokenizer_bos_eos
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from workbench.models.attention import Attention
from workbench.models.bridged_model import BridgedModel
from workbench.models.own_model import SeenPattern
from workbench.models.pretrained import checks
from workbench.models.pretrained.attention_functions import attention_of
from workbench.models.pretrained.bridge import HookedPretrained, around, put_variants
from workbench.models.pretrained.text_file import needed
from workbench.tasks import Batch, Sequences, Vocabulary, own_sequences
from workbench.tasks.token_words import vocabulary_of
from workbench.util.messages import check_characters
from workbench.util.seeds import global_draws


class Pretrained(BridgedModel):
    """A model of Hugging Face that TransformerLens has bridged, under the names that instruments know.

        model = workbench.load_model("gpt2")
        found = workbench.inspect(model, model.sequences(texts, length=64))

    Both bases, the encoder (`token_embedding.weight`) and the decoder (`unembedding.weight`), are the model's own,
    which are one matrix where it ties them; so is `final_norm`.

    Args:
        model: a causal language model, which this takes over: its modules become parts of the bridge. It has the
            attention that `set_attention` gave it.
        tokenizer: its tokenizer; None for a model that takes token ids alone.
        name: what to call it.

    Raises:
        ValueError: if TransformerLens has no bridge for it, the tokenizer has tokens that the model does not know, the
            bridge does not compute what the model does, a weight is NaN or infinite, the model is not causal, or its
            blocks do not add what attention and an MLP write.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None, name: str = ""
    ) -> None:
        name = name or type(model).__name__
        if type(model).__name__ not in ArchitectureAdapterFactory._adapters:
            raise ValueError(
                f"TransformerLens has no bridge for {type(model).__name__}, the architecture of {name}; "
                f"{checks.HIDDEN_STATES}"
            )
        variants = attention_of(model)
        d_vocab = checks.n_tokens(model)
        largest = -1 if tokenizer is None else max(tokenizer.get_vocab().values(), default=-1)
        if largest >= d_vocab:
            raise ValueError(
                f"the tokenizer of {name} does not fit the model: it has the token id {largest}, and the model knows "
                f"{d_vocab} tokens, 0 to {d_vocab - 1}"
            )
        bridge = _bridged(model.eval(), variants, name)
        with checks.foreign(f"{name} cannot be opened"):
            super().__init__(bridge)
        self._attention, self.tokenizer = variants, None
        if tokenizer is not None:
            # TransformerLens itself would add an end of text to a tokenizer without one, under an id that the model
            # does not know, and put it before every text. Here nothing is added to this copy: before and after a text
            # is what the tokenizer puts there (see `bridge`), and what pads is one of the tokens that it has.
            self.tokenizer = bridge.tokenizer = tokenizer = copy.deepcopy(tokenizer)
            others = (tokenizer.eos_token, tokenizer.unk_token, tokenizer.bos_token)
            tokenizer.pad_token = tokenizer.pad_token or next((token for token in others if token is not None), None)
            bridge.cfg.tokenizer_prepends_bos, bridge.cfg.tokenizer_appends_eos = detect_tokenizer_bos_eos(tokenizer)
            bridge.cfg.default_prepend_bos = bridge.cfg.tokenizer_prepends_bos

    @property
    def name(self) -> str:
        """What it is called beside every finding."""
        return str(self.config.module)

    @cached_property
    def attention(self) -> tuple[Attention, ...]:
        """What each layer does with its pattern."""
        return tuple(SeenPattern() if layer.name == "standard" else layer for layer in self._attention)

    can_be_fresh = True  # see `fresh`

    def fresh(self, draws: torch.Generator) -> Pretrained:
        """The same model as its class of Transformers makes it for training, drawn from this generator.

        Nothing is loaded: its config is built anew. Hook points and tokenizer are a copy of this one's.
        """
        original: Any = self.module.original_model
        seed = int(torch.randint(2**31, (), generator=draws))
        with checks.foreign(f"{self.config.module} cannot be built anew"), global_draws(seed):
            made = type(original)(copy.deepcopy(original.config)).to(self.token_embedding.weight).eval()
            config = copy.deepcopy(made.config)
            bridge = build_bridge_from_module(made, type(made).__name__, hf_config=config, model_name="fresh")
        tensors = ([*module.parameters(), *module.buffers()] for module in (self.module, bridge))
        # A deep copy takes the new tensors where this model has its own: no third set of weights is in memory.
        return copy.deepcopy(self, {id(tensor): new for tensor, new in zip(*tensors, strict=True)})

    def tokens(self, text: str) -> Int[Tensor, " pos"]:
        """The tokens of a text, with those that the tokenizer puts before or after it.

        Raises:
            ValueError: if the model has no tokenizer, or the text has half of a character.
        """
        if self.tokenizer is None:
            raise ValueError(f"{self.config.module} has no tokenizer: give token ids")
        check_characters(text, "the text")
        return torch.tensor(self.tokenizer(text)["input_ids"], dtype=torch.long)

    def prompt(self, text: str) -> Int[Tensor, " pos"]:
        """The tokens of a text that goes on: without those that the tokenizer puts after it; errors as of `tokens`."""
        ids = self.tokens(text)
        return ids[: len(ids) - len(self._around[1])]

    @cached_property
    def _around(self) -> tuple[list[int], list[int]]:
        """The tokens that the tokenizer puts before and after a text. Raises ValueError if there is no tokenizer."""
        return around(needed(self.tokenizer, self.config.module))

    def text(self, tokens: Int[Tensor, " pos"]) -> str:
        """The text that these are the tokens of, special tokens in it too, without those that the tokenizer adds.

        Raises:
            ValueError: if the model has no tokenizer.
        """
        tokenizer, ids = needed(self.tokenizer, self.config.module), tokens.tolist()
        before, after = self._around
        if ids[: len(before)] == before:
            ids = ids[len(before) :]
        if after and ids[-len(after) :] == after:
            ids = ids[: -len(after)]
        return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The word of each token id as people read it (`tasks.token_words`); without a tokenizer `<id 5>`."""
        if self.tokenizer is None:
            return Vocabulary(tuple(f"<id {i}>" for i in range(self.config.d_vocab)))
        return vocabulary_of(self.tokenizer, self.config.d_vocab)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its vocabulary."""
        return self.vocabulary.words

    def sequences(
        self, texts: Sequence[str], length: int | None = None, training: Sequence[str] | None = None
    ) -> Sequences:
        """Texts as sequences to inspect the model on.

        Args:
            texts: what is measured on.
            length: cut texts into pieces of so many tokens, without overlap; by default the model's context. A last
                piece of one token is left out.
            training: other texts, for what has to be trained first, such as a tuned lens or a probe.

        Raises:
            ValueError: if the model has no tokenizer, the pieces are longer than its context, or a text has fewer than
                two tokens.
        """
        size = self.config.n_ctx if length is None else length
        if not 2 <= size <= self.config.n_ctx:
            raise ValueError(f"pieces have 2 to {self.config.n_ctx} tokens, the model's context, not {size}")
        pieces = [
            None if group is None else [piece for text in group for piece in self._pieces(text, size)]
            for group in (texts, training)
        ]
        assert pieces[0] is not None
        return own_sequences(
            pieces[0],
            self.config.d_vocab,
            training=pieces[1],
            words=self.vocabulary,
            pad=self.pad,
            known=self.known_text,
        )

    def _pieces(self, text: str, size: int) -> list[Tensor]:
        ids = self.tokens(text)
        if len(ids) < 2:
            raise ValueError(f"a text has {len(ids)} tokens, and there is nothing to predict in fewer than 2: {text!r}")
        return [piece for piece in ids.split(size) if len(piece) > 1]

    def batch(self, text: str) -> Batch:
        """One text as a batch. Raises ValueError as `sequences`, and if the text is longer than the context."""
        ids = self.tokens(text)
        if not 2 <= len(ids) <= self.config.n_ctx:
            raise ValueError(f"a text has 2 to {self.config.n_ctx} tokens, not {len(ids)}")
        return Batch.next_token(ids[None], 0, len(ids) - 1)

    @property
    def pad(self) -> int:
        """The token that fills up shorter sequences: the tokenizer's, else the last one."""
        token = getattr(self.tokenizer, "pad_token_id", None)
        return self.config.d_vocab - 1 if token is None else int(token)


@torch.no_grad()
def _bridged(model: PreTrainedModel, variants: Sequence[Attention], name: str) -> HookedPretrained:
    """The bridge around a model, which it takes over. Raises ValueError as `Pretrained`."""
    tokens = checks.random_tokens(model)
    expected = checks.checked_logits(model, tokens, name)
    model.set_attn_implementation("eager")  # others do not give out the pattern
    unfit = checks.no_bridge(model, name)
    with checks.foreign(unfit):
        bridge = build_bridge_from_module(
            model, type(model).__name__, hf_config=copy.deepcopy(model.config), model_name=name
        )
    if not hasattr(bridge, "blocks"):
        raise ValueError(f"{name} is of another family: it has no single list of layers; {checks.HIDDEN_STATES}")
    width = cast(Tensor, model.get_input_embeddings().weight).shape[1]
    if width != bridge.cfg.d_model:
        raise ValueError(
            f"{name} is of another family: its embedding is {width} wide and its residual {bridge.cfg.d_model}, so "
            f"that no token has a direction in the residual; {checks.HIDDEN_STATES}"
        )
    hooked = put_variants(bridge.eval(), variants)
    checks.check_bridge(hooked, tokens, expected, name, unfit)
    return hooked
