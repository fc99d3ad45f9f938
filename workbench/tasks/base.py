"""The base class of tasks: settings in, batches and their truth out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.tasks.accuracy import COUNTED, Unit, correct, whole
from workbench.tasks.batch import Batch, Tokens, Truth, after_mark, before_padding
from workbench.tasks.known_text import KnownText, Origin
from workbench.tasks.pairs import Pairs, make_pairs
from workbench.tasks.split import SPLITS, TEST_ONE_IN, Split, fingerprints
from workbench.tasks.vocabulary import Vocabulary, word_tokenizer
from workbench.util import seeds
from workbench.util.lookup import lookup
from workbench.util.memory import check_memory
from workbench.util.messages import brief
from workbench.util.strict_settings import Checked

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MAX_ROUNDS = 64  # of drawing, until there are enough examples on one side of the split
MEASURED = 1024  # training sequences of which the median length is taken
LONGEST = 2**16  # the largest length, in tokens or symbols, that a task's setting may ask for
_ARGUMENTS = ("self", "n", "generator", "split", "head")  # of `sample` and `draw`, after which no condition is named


class Task(Checked, ABC):
    """A task: its fields are its settings (frozen; an unknown one is an error), its methods make the data.

    To add one: subclass in a file of its own under `workbench/tasks/` and add one entry to `TASKS`.
    """

    name: ClassVar[str]
    """The task's entry in `TASKS`."""
    summary: ClassVar[str]
    """One line for people: what is given, what is asked."""
    group: ClassVar[str]
    """What accuracy is broken down by (`depth`, `length`, `digit`)."""
    former_groups: ClassVar[dict[str, str]] = {}
    """Group -> what it was called in the logs of runs trained before it was renamed."""
    unit: ClassVar[Unit]
    """What counts as one answer: a whole sequence, or each scored position."""
    token_labels: ClassVar[tuple[str, ...]] = ()
    """The labels of the truth whose values are token ids."""
    typed: ClassVar[str] = "Input, as the task writes it"
    """What a person types, as the title of a field."""
    running_text: ClassVar[bool] = False
    """Whether nothing is asked and each token is predicted from those before it; its loss is read in perplexity."""
    for_more: ClassVar[str] = "ask for larger ones"
    """What to do where one side of the split has hardly any example."""
    answer_mark: ClassVar[str | None] = None
    """The token behind which the answer stands, where a chain of thought may stand before it."""
    files: ClassVar[tuple[str, ...]] = ()
    """Settings that hold a file's path on this machine, or a list of them (see `tasks.files_of`)."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary: ...

    @property
    @abstractmethod
    def n_ctx(self) -> int:
        """The longest sequence this task makes, in tokens."""

    @property
    def slots(self) -> tuple[str, ...]:
        """What its sequences have in common by position, such as `S2`; their numbers are the label `slot`."""
        return ()

    @property
    def group_label(self) -> str:
        """The label of the truth that says in which group an answer is; by default it has the group's name."""
        return self.group

    @property
    def counted(self) -> str:
        """What is counted as right or wrong, in words."""
        return "next tokens" if self.running_text else COUNTED[self.unit]

    @property
    def sought(self) -> str:
        """What a model's answer is held against at one position, in words."""
        return "next token" if self.running_text else "right answer"

    @property
    def drawn(self) -> str:
        """How the sequences are drawn on which a run measures itself in training, in words."""
        return "drawn as in training"

    @property
    def origins(self) -> tuple[Origin, ...]:
        """What the sequences of the test split are to a model that was trained on this task: each kind once."""
        return (Origin.HELD_OUT,)

    @property
    def measured_on(self) -> Origin:
        """The same of all of them together."""
        return Origin.of_all(self.origins)

    def origins_of(self, tokens: Int[Tensor, "batch pos"]) -> list[Origin]:
        """What each of these sequences of the test split is."""
        return [*self.origins] * len(tokens)

    @property
    def known_text(self) -> KnownText | None:
        """What is known of the text that a model of this task was trained on; None where it is no text."""
        return None

    @property
    def heads(self) -> dict[str, int]:
        """Extra output heads beside `main`, each with an auxiliary task (a hint): name -> number of classes."""
        return {}

    @property
    def bytes_each(self) -> int:
        """Memory that drawing one sequence takes, at least: its tokens, targets and mask."""
        return 17 * self.n_ctx

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        """Keyword arguments for `sample` that make this task's test sets, one set each."""
        return ({},)

    def sample(
        self, n: int, generator: torch.Generator, /, *, split: Split | None = None, head: str = "main", **condition: Any
    ) -> Batch:
        """Draw n sequences from `generator` alone.

        Args:
            n: how many.
            generator: the only source of chance.
            split: draw only from this side of the split; by default from both. A fingerprint of its question decides
                the side of an example, so that no example is ever on both. The test side is drawn `as_tested`.
            head: the output head whose task to draw: `main`, or one of `heads`.
            condition: narrows the draw (see `conditions`).

        Raises:
            ValueError: if there is no such head, split or condition, if they cannot be met together, or if so many
                sequences do not fit in memory.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        if head != "main":
            lookup(self.heads, head, f"{self.name} hint")
        self.check_condition(condition)
        share = {"train": 1 - self.test_share, "test": self.test_share}.get(split or "", 1.0)
        check_memory(int(n / share) * self.bytes_each, f"drawing {n:,} sequences of {self.name}")
        if split is None:
            return replace(self.draw(n, generator, head=head, **condition), head=head)
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}; there is: {', '.join(SPLITS)}")
        batch = self._draw_side(n, generator, split, share, head, condition)
        return replace(self.trimmed(batch), head=head)

    @property
    def as_tested(self) -> Task:
        """The task without what only its training data have, such as a share of sequences with few symbols.

        The test side of the split is drawn from it, as the papers draw their test sets: uniformly, for each length. By
        default it is that very task.
        """
        return self

    def _draw_side(
        self, n: int, generator: torch.Generator, split: Split, share: float, head: str, condition: dict[str, Any]
    ) -> Batch:
        """Draw n sequences of one side of the split, which has about this share of all, in as many rounds as needed."""
        parts: list[Batch] = []
        task = self.as_tested if split == "test" else self
        for _ in range(MAX_ROUNDS):
            missing = n - sum(map(len, parts))
            if missing <= 0:
                break
            drawn = task.draw(int(missing / share * 1.1) + 8, generator, head=head, **condition)
            parts.append(drawn[self.is_test(drawn.tokens) == (split == "test")][:missing])
        else:
            given = "".join(f", {name}={value}" for name, value in condition.items())
            raise ValueError(f"the task {self.name} has hardly any {split} example{given}; {self.for_more}")
        return parts[0] if len(parts) == 1 else Batch.cat(parts, self.pad)

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        """Draw n sequences, from both sides of the split; `sample` is built on it.

        Raises:
            ValueError: if the task has no such condition, or the condition cannot be met.
        """

    def check_condition(self, condition: Mapping[str, Any]) -> None:
        """Raise ValueError, naming it, if a condition is none: an argument of `sample`, or neither integer nor text.

        Where `draw` declares it as `int | None`, it is no text either. Whether it can be met is found out in drawing.
        """
        declared = signature(self.draw).parameters
        for name, value in condition.items():
            if name in _ARGUMENTS:
                known = [name for name, one in declared.items() if one.kind is one.KEYWORD_ONLY and name != "head"]
                self.refuse({name: value}, *known)
            counts = name in declared and str(declared[name].annotation) == "int | None"
            if isinstance(value, bool) or not isinstance(value, Integral if counts else Integral | str):
                takes = "an integer" if counts else "an integer or a text"
                raise ValueError(f"the condition {name} of {self.name} takes {takes}, not {brief(repr(value), 100)}")

    def refuse(self, condition: dict[str, Any], *known: str) -> None:
        """Raise ValueError, naming the `known` conditions, if `draw` was given any other."""
        if condition:
            there_is = ", ".join(known) or "none"
            raise ValueError(f"{self.name} has no condition {next(iter(condition))!r}; there is: {there_is}")

    def question_length(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The number of leading tokens of each sequence that are its question; by default all are."""
        return self.lengths(tokens)

    def answer_mask(self, batch: Batch) -> Bool[Tensor, "batch pos"]:
        """Where the answer itself is scored: not where a chain of thought before it is.

        By default all that is scored, behind the `answer_mark` if there is one. A task that overrides it overrides
        `answer_start` too.
        """
        if self.answer_mark is None:
            return batch.loss_mask
        return batch.loss_mask & ((batch.tokens == self.vocabulary.id(self.answer_mark)).cumsum(-1) > 0)

    def answer_alone(self, batch: Batch) -> Batch:
        """The batch with its answer alone scored; what comes before it, a thought too, is given as it is."""
        return replace(batch, loss_mask=self.answer_mask(batch))

    def answer_start(
        self, questions: Sequence[Int[Tensor, " pos"]], written: Int[Tensor, "batch new"]
    ) -> Int[Tensor, " batch"]:
        """Where in what a model wrote its answer begins, behind its chain of thought.

        By default it is behind the first `answer_mark`; where there is none, or the question has it, at once.

        Args:
            questions: each sequence up to where what is written begins.
            written: what a model wrote behind each.

        Returns:
            How many tokens of each come before the answer; as many as were written if there is no answer in them.
        """
        if self.answer_mark is None:
            return torch.zeros(len(written), dtype=torch.long, device=written.device)
        mark = self.vocabulary.id(self.answer_mark)
        asked = torch.stack([(question == mark).any() for question in questions])
        return after_mark(written, mark, (~asked).long().to(written.device))

    @property
    def test_share(self) -> float:
        """The part of all questions that is kept back for testing; a task that overrides it overrides `is_test` too."""
        return 1 / TEST_ONE_IN

    def is_test(self, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, " batch"]:
        """Whether each sequence belongs to the test set; this depends on its question alone, not on its answer."""
        of_question = fingerprints(tokens, self.question_length(tokens))
        return torch.from_numpy(of_question % np.uint64(TEST_ONE_IN) == 0)

    @abstractmethod
    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        """The truth about these sequences, computed from the tokens alone. Positions after an input's end
        (padding) carry no label and no edge.
        """

    def states(self, tokens: Int[Tensor, " pos"]) -> dict[str, list[tuple[int, int, str]]]:
        """The states that change along one sequence, in words: row -> stretches (first position, last position, words).

        The words are empty where nothing is there. By default there are no states; `boxes` has each box's contents.
        """
        return {}

    @abstractmethod
    def parse(self, text: str) -> Batch:
        """One example from a question that a person typed in the task's words; the answer is filled in.

        Raises:
            ValueError: if the text is not an input of this task; the message says what was expected.
        """

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        """The question of a sequence in the task's words, without its answer; `parse` reads it back."""
        return " ".join(self.words(tokens[: int(self.question_length(tokens[None]))]))

    @property
    def pair_kinds(self) -> dict[str, str]:
        """The ways in which a question can be changed minimally: name -> what is changed. By default there is none."""
        return {}

    def minimal_pairs(
        self,
        n: int,
        generator: torch.Generator,
        *,
        kind: str | None = None,
        relevant: bool = True,
        later: bool = False,
        **condition: Any,
    ) -> Pairs:
        """Draw n minimal pairs from the test side of the split, both questions of each.

        Args:
            n: how many.
            generator: the only source of chance.
            kind: one of `pair_kinds`; by default the first.
            relevant: False draws a control: changes that leave an answer behind them as it is, which is asked for.
            later: asks for the answers behind the first that the change changes. There the answers so far, which are
                input too, differ as well, so that what reads them matters; the first has the same ones before it.
                A control is the same either way.
            condition: narrows the draw of the questions (see `conditions`).

        Raises:
            ValueError: if the task has no such kind or condition, or hardly any question that can be changed so.
        """
        return make_pairs(self, n, generator, kind, relevant, later, condition)

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        """Sequences with one thing changed in their question, at random; the answers behind it stay as they were.

        A change need not be possible: one after which `answered` raises ValueError is not used.
        """
        raise NotImplementedError

    def answered(self, tokens: Int[Tensor, " pos"]) -> Batch:
        """The question of a sequence with its right answer, whatever answer the sequence has.

        Raises:
            ValueError: if it is no question of this task.
        """
        return self.parse(self.question(tokens))

    def lengths(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The number of tokens of each sequence before the padding on its right."""
        return before_padding(tokens, self.pad).sum(-1)

    @property
    def delimiters(self) -> tuple[int, ...]:
        """The ids of the tokens of which the first ends the input; empty if no token tells where an input ends."""
        return ()

    def median_training_length(self, count: Callable[[Tensor], Tensor] | None = None) -> int:
        """The median length of the sequences that the main task trains on, of a fixed sample of them.

        It does not depend on the lengths that the task is tested on.

        Args:
            count: what to count instead of tokens before the padding: from tokens `[batch, pos]` to `[batch]`.
        """
        tokens = self.sample(MEASURED, seeds.generator(0, "training lengths"), split="train").tokens
        return int((count or self.lengths)(tokens).median())

    def trimmed(self, batch: Batch) -> Batch:
        """The same sequences without the columns in which all have padding."""
        if self.pad < 0:
            return batch
        width = int(self.lengths(batch.tokens).max())
        return Batch(batch.tokens[:, :width], batch.targets[:, :width], batch.loss_mask[:, :width], batch.head)

    @property
    def pad(self) -> int:
        """The id of the padding token; −1, which no token has, if all sequences have the same length."""
        return self.vocabulary.ids.get("PAD", -1)

    @property
    @abstractmethod
    def groups(self) -> tuple[int, ...]:
        """The values of `group` by which accuracy is broken down."""

    def accuracy_by_group(
        self, logits: Float[Tensor, "batch pos class"], batch: Batch, truth: Truth
    ) -> Float[Tensor, "batch group"]:
        """The accuracy of each example in each of `groups`, in [0, 1]; NaN if the example has no answer in the group.

        If positions count (`unit`), it is the mean of `correct` over the group's scored positions. If sequences count,
        it is `whole` in the sequence's group.
        """
        if self.unit == "sequence":
            return self.in_groups(whole(logits, batch), batch, truth)
        member = self._members(batch, truth)
        return (correct(logits, batch).unsqueeze(-1) * member).sum(1) / member.sum(1)

    def in_groups(self, values: Float[Tensor, " batch"], batch: Batch, truth: Truth) -> Float[Tensor, "batch group"]:
        """A value of each sequence at the one of `groups` that the sequence is in, NaN at the others."""
        return torch.where(self._members(batch, truth).any(1), values[:, None], torch.nan)

    def _members(self, batch: Batch, truth: Truth) -> Bool[Tensor, "batch pos group"]:
        """Whether each position is scored and in each of `groups`."""
        label = truth.labels[self.group_label]
        return torch.stack([(label == value) & batch.loss_mask for value in self.groups], dim=-1)

    def fast_tokenizer(self) -> PreTrainedTokenizerFast:
        """The vocabulary as a tokenizer of Hugging Face; by default each word is a token.

        It can be saved (`save_pretrained`), and makes TransformerLens's words work: `hooked.speak(tokenizer)`.
        """
        return word_tokenizer(self.vocabulary, self.pad, self.n_ctx)

    def words(self, tokens: Int[Tensor, " pos"]) -> list[str]:
        """The tokens of one sequence as people read them."""
        return self.vocabulary.decode(tokens)
