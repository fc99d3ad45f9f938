"""Text that a person types as the task of a model, read by its own tokenizer, beside sequences to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from jaxtyping import Int
from torch import Tensor

from workbench.models.pretrained.text_file import file_sequences, needed
from workbench.tasks import Batch, Sequences, own_sequences

if TYPE_CHECKING:
    from workbench.models.pretrained.model import Pretrained

SENTENCES = (
    "When Mary and John went to the store, John gave a drink to Mary.",
    "The cat sat on the mat, and then the cat sat on the mat again.",
    "Paris is the capital of France, and Rome is the capital of Italy.",
    "One, two, three, four, five, six, seven, eight, nine, ten.",
    "The keys to the cabinet are on the table near the door.",
    "She opened the box, took the ring out of the box, and closed the box.",
    "If it rains tomorrow, we will stay at home and read a book.",
    "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday.",
)
"""What there is to look at before anything is typed."""
OTHERS = (
    "The author who wrote the books was known to the editors of the paper.",
    "A long time ago, in a small village by the sea, there lived an old man.",
    "He said that he would come, but he did not say when he would come.",
    "Red, green, blue, red, green, blue, red, green, blue, red.",
    "The train to London leaves at noon, and the train to Leeds at one.",
    "To be, or not to be, that is the question.",
    "They sold the house in the city and bought a farm in the hills.",
    "Water boils at one hundred degrees and freezes at zero degrees.",
)
"""Other sentences, for what has to be trained first, such as a probe."""
LENGTH, SHOWN = 32, 64  # tokens of a piece of a text file, and how many pieces there are to look at

_models: dict[str, Pretrained] = {}  # path of the sequences -> the model that reads what is typed


class TypedText(Sequences):
    """Sequences to begin with, and whatever a person types, in the words of a model's own tokenizer."""

    summary: ClassVar[str] = "the next token of a text"
    typed: ClassVar[str] = "Your text"

    @classmethod
    def of(cls, model: Pretrained, path: str | Path | None = None) -> TypedText:
        """For a model: the first pieces of a text file, or a few sentences.

        Raises:
            ValueError: in one line, if the model has no tokenizer, or as `file_sequences`.
        """
        needed(model.tokenizer, model.config.module)
        if path is None:
            given = _of_sentences(model)
        else:
            length = min(LENGTH, model.config.n_ctx)
            given = file_sequences(model, path, length=length, n=SHOWN, training=SHOWN)
        _models[given.path] = model
        return cls(path=given.path)

    @property
    def n_ctx(self) -> int:
        """The model's context: what is typed may be as long."""
        return _models[self.path].config.n_ctx

    def parse(self, text: str) -> Batch:
        """A batch of one typed text. Raises ValueError if it has fewer than two tokens, or more than the context."""
        return _models[self.path].batch(text)

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        return _models[self.path].text(tokens[: int(self.lengths(tokens[None])[0])])


def _of_sentences(model: Pretrained) -> Sequences:
    """The sentences, all cut to one length, so that nothing is padded: a typed text may end in any token."""
    shown, others = ([model.tokens(sentence) for sentence in some] for some in (SENTENCES, OTHERS))
    length = min([model.config.n_ctx, *map(len, shown), *map(len, others)])
    if length < 2:
        raise ValueError(f"the tokenizer of {model.config.module} makes fewer than 2 tokens of a sentence; give --text")
    cut = [[ids[:length] for ids in some] for some in (shown, others)]
    return own_sequences(cut[0], model.config.d_vocab, training=cut[1], words=model.vocabulary, known=model.known_text)
