"""What every task must do; each check takes a task with its settings."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

from workbench import tasks
from workbench.tasks import Batch, Task, correct
from workbench.tasks.split import SPLITS
from workbench.testing.require import ContractError, NotTested, require
from workbench.util.seeds import generator

FEW = 2000  # distinct questions among 4,000: where there are fewer, the share kept back for testing is left to chance


def shapes_and_ranges(task: Task) -> None:
    """Batches have the shapes and ranges that `Batch` promises."""
    batch, size = task.sample(17, generator(0)), len(task.vocabulary)
    tokens, targets, mask = batch.tokens, batch.targets, batch.loss_mask
    found = f"tokens {list(tokens.shape)}, targets {list(targets.shape)}, loss_mask {list(mask.shape)}"
    require(tokens.shape == mask.shape == targets.shape[:2], f"all are [batch, pos] and on, not {found}")
    require(tokens.shape[0] == 17, f"17 sequences were asked for, and {tokens.shape[0]} drawn")
    require(tokens.shape[1] <= task.n_ctx, f"a sequence has {tokens.shape[1]} tokens, but n_ctx says {task.n_ctx}")
    require(tokens.dtype == torch.int64, f"tokens are int64, not {tokens.dtype}")
    require(mask.dtype == torch.bool, f"loss_mask is bool, not {mask.dtype}")
    low, high = map(int, tokens.aminmax())
    require(low >= 0 and high < size, f"token ids lie in 0 … {size - 1}: they are from {low} to {high}")
    require(bool(mask.any(-1).all()), "a sequence has no scored position: its loss_mask is false everywhere")
    if targets.ndim == 2:
        low, high = map(int, targets[mask].aminmax())
        require(low >= 0 and high < size, f"targets lie in 0 … {size - 1}: they are from {low} to {high}")
    else:
        require(targets.shape[2] == size, f"sets of targets have a column for each of {size} tokens, not {found}")
        require(bool(targets[mask].any(-1).all()), "a scored position has an empty set of targets")


def the_generator_alone_decides(task: Task) -> None:
    """The generator alone decides what is drawn."""
    torch.manual_seed(1)
    first = task.sample(8, generator(0))
    torch.manual_seed(2)
    again, other = task.sample(8, generator(0)), task.sample(8, generator(1))
    same = torch.equal(first.tokens, again.tokens) and torch.equal(first.targets, again.targets)
    require(same, "the same generator drew other sequences: something else than `generator` is asked for chance")
    different = first.tokens.shape != other.tokens.shape or not torch.equal(first.tokens, other.tokens)
    require(different, "another seed drew the same sequences")


def the_same_in_another_process(task: Task) -> None:
    """Another process draws the same sequences: nothing goes by the order of a set or by `hash`."""
    code = (
        "import sys; from workbench import load_plugins, tasks; from workbench.util.seeds import generator\n"
        "from workbench.util.settings import value_of; load_plugins()\n"
        "task = tasks.make(sys.argv[1], **value_of(sys.argv[2]))\n"
        "print(task.sample(9, generator(3), split='train').tokens.tolist())"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, task.name, task.model_dump_json()],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ContractError(f"another process cannot draw: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    here = str(task.sample(9, generator(3), split="train").tokens.tolist())
    require(done.stdout.strip() == here, "another process draws other sequences with the same generator")


def truth_fits_the_tokens(task: Task) -> None:
    """The truth lies within the sequences, looks back only, and says nothing of padding."""
    tokens = task.sample(9, generator(4)).tokens
    truth, (n, n_pos) = task.truth(tokens), tokens.shape
    require(truth.edges.ndim == 2 and truth.edges.shape[1] == 4, f"edges are rows of 4, not {list(truth.edges.shape)}")
    example, hop, query, key = truth.edges.T
    require(bool((key <= query).all()), "a gold edge leads from a query to a later key")
    require(bool((hop >= 1).all()), "a gold edge has hop 0: hops count from 1")
    inside = ((example >= 0) & (example < n) & (key >= 0) & (query < n_pos)).all()
    require(bool(inside), "a gold edge lies outside of its batch")
    padding = torch.arange(n_pos) >= task.lengths(tokens)[:, None]
    require(not bool(padding[example, query].any()), "a gold edge starts at padding")
    for name, label in truth.labels.items():
        require(label.shape == tokens.shape, f"the label {name!r} is {list(label.shape)}, not {list(tokens.shape)}")
        require(int(label.min()) >= -1, f"the label {name!r} has {int(label.min())}: −1 is for none, others from 0")
        require(bool((label[padding] == -1).all()), f"the label {name!r} says something of padding, which is −1")
    require(task.group_label in truth.labels, f"there is no label {task.group_label!r} to break accuracy down by")
    for name, array in truth.arrays.items():
        require(len(array) == n, f"the array {name!r} of the truth has {len(array)} rows for {n} sequences")


def right_answers_score_one(task: Task) -> None:
    """Answers that are right score 1, wrong ones less, and each falls in a group."""
    batch = task.sample(64, generator(5))
    sets = batch.targets.ndim == 3
    right = batch.targets if sets else torch.nn.functional.one_hot(batch.targets.clamp(min=0), len(task.vocabulary))
    perfect = right.float()
    require(
        torch.equal(correct(perfect, batch), batch.loss_mask.float()), "logits that predict the targets are not right"
    )
    truth = task.truth(batch.tokens)
    by_group = task.accuracy_by_group(perfect, batch, truth)
    groups = f"[64, {len(task.groups)}]"
    require(by_group.shape == (64, len(task.groups)), f"accuracy by group is {groups}, not {list(by_group.shape)}")
    known = ~by_group.isnan()
    require(bool(known.any()), f"no answer is in any of the groups {task.groups}: see the label {task.group_label!r}")
    require(bool((by_group[known] == 1).all()), "right answers have an accuracy below 1 in some group")
    wrong = task.accuracy_by_group(-perfect, batch, truth)
    require(torch.equal(wrong.isnan(), ~known), "which groups an answer is in depends on the logits")
    require(bool((wrong[known] < 1).all()), "wrong answers have an accuracy of 1 in some group")


def conditions_make_test_sets(task: Task) -> None:
    """Each of the task's `conditions` makes a test set, of the length that it asks for."""
    for condition in task.conditions:
        batch = task.sample(5, generator(6), **condition)
        require(len(batch) == 5, f"the condition {condition} gave {len(batch)} sequences for 5")
        require(batch.tokens.shape[1] <= task.n_ctx, f"the condition {condition} makes sequences beyond n_ctx")
        if "length" in condition and "length" in (labels := task.truth(batch.tokens).labels):
            found = set(labels["length"].flatten().tolist()) - {-1}
            require(found <= {condition["length"]}, f"the condition {condition} gave lengths {sorted(found)}")


def no_question_is_on_both_sides(task: Task) -> None:
    """Training and testing share no question, and `test_share` of them, a tenth, is kept back for testing."""
    try:
        train, test = (task.sample(300, generator(8, split), split=split) for split in SPLITS)
    except ValueError as error:
        raise ContractError(f"300 sequences of each side cannot be drawn ({error}): see question_length") from None
    require(not task.is_test(train.tokens).any(), "a sequence that was drawn for training is a test sequence")
    require(bool(task.is_test(test.tokens).all()), "a sequence that was drawn for testing is not a test sequence")
    shared = _questions(task, train) & _questions(task, test)
    require(not shared, f"{len(shared)} questions are in training and in testing: see question_length")
    drawn = task.draw(4000, generator(9))
    if len(_questions(task, drawn)) > FEW:
        share = task.is_test(drawn.tokens).float().mean().item()
        near = abs(share - task.test_share) < 4.2 * (task.test_share * (1 - task.test_share) / 4000) ** 0.5
        require(near, f"{task.test_share:.0%} of all questions are for testing, not {share:.0%}: see question_length")


def _questions(task: Task, batch: Batch) -> set[tuple[int, ...]]:
    rows = zip(batch.tokens.tolist(), task.question_length(batch.tokens).tolist(), strict=True)
    return {tuple(row[:asked]) for row, asked in rows}


def as_tested_is_the_same_task(task: Task) -> None:
    """`as_tested` asks the same questions of the same model."""
    tested = task.as_tested
    require(type(tested) is type(task), f"as_tested is a {type(tested).__name__}, not a {type(task).__name__}")
    require(tested.as_tested == tested, "as_tested of as_tested is another task")
    for name in ("vocabulary", "n_ctx", "heads", "conditions", "groups"):
        require(getattr(tested, name) == getattr(task, name), f"as_tested has another {name}")
    tokens = task.sample(40, generator(10)).tokens
    require(torch.equal(tested.is_test(tokens), task.is_test(tokens)), "as_tested splits questions in another way")


def wrong_draws_are_refused(task: Task) -> None:
    """A draw that makes no sense is refused with a ValueError."""
    for words, wanted in (
        ("a condition that does not exist", {"no_such_condition": 3}),
        ("a hint that does not exist", {"head": "no such head"}),
        ("a side that does not exist", {"split": "valid"}),
    ):
        try:
            task.sample(1, generator(0), **wanted)  # type: ignore[arg-type]
        except ValueError:
            continue
        raise ContractError(f"{words}, {wanted}, is not refused: `draw` calls `self.refuse(condition)`")


def hints_have_heads(task: Task) -> None:
    """Every hint draws batches for its own head."""
    if not task.heads:
        raise NotTested(f"{task.name} has no hints")
    for head, n_classes in task.heads.items():
        batch = task.sample(50, generator(1), head=head, split="train")
        require(batch.head == head, f"the hint {head!r} drew for the head {batch.head!r}")
        require(bool(batch.loss_mask.any(-1).all()), f"a sequence of the hint {head!r} has no scored position")
        require(batch.tokens.shape[1] <= task.n_ctx, f"sequences of the hint {head!r} are longer than n_ctx")
        require(int(batch.targets.max()) < n_classes, f"a target of the hint {head!r} is not below {n_classes}")
        require(not task.is_test(batch.tokens).any(), f"the hint {head!r} trains on test questions")


def typed_questions_are_read_back(task: Task) -> None:
    """What `question` writes, `parse` reads back as the same sequence; nothing typed is refused with a ValueError."""
    batch = task.sample(12, generator(7))
    for i, length in enumerate(task.lengths(batch.tokens).tolist()):
        text = task.question(batch.tokens[i])
        try:
            parsed = task.parse(text)
        except ValueError as error:
            raise ContractError(f"parse does not read what question writes, {text!r}: {error}") from None
        for name in ("tokens", "targets", "loss_mask"):
            found, drawn = getattr(parsed, name), getattr(batch, name)[i : i + 1, :length]
            require(torch.equal(found, drawn), f"parse({text!r}) has other {name} than the sequence it was written of")
    try:
        task.parse("")
    except ValueError:
        return
    raise ContractError("parse takes an empty text for a question; it raises ValueError with what was expected")


def settings_make_the_task(task: Task) -> None:
    """A task's settings make the same task again, and cannot be changed."""
    require(tasks.make(task.name, **task.model_dump()) == task, "the task made of model_dump() is another one")
    try:
        task.__setattr__(next(iter(type(task).model_fields), "name"), 1)
    except (ValueError, AttributeError):
        return
    raise ContractError("a setting can be changed after the task is made")


def delimiters_end_the_question(task: Task) -> None:
    """The first of the `delimiters` ends the question, in every head's sequences alike."""
    if not task.delimiters:
        raise NotTested(f"{task.name} has no delimiters")
    for head in ("main", *task.heads):
        tokens = task.sample(40, generator(10), head=head).tokens
        ends = torch.stack([tokens == token for token in task.delimiters]).any(0)
        require(bool(ends.any(-1).all()), f"a sequence of {head} has none of the delimiters")
        beyond = task.question_length(tokens) - ends.long().argmax(-1)
        near = bool(((beyond == 0) | (beyond == 1)).all()) and beyond.unique().numel() == 1
        require(near, f"the question ends {sorted(set(beyond.tolist()))} tokens after the first delimiter, not 0 or 1")


def the_median_length_is_fixed(task: Task) -> None:
    """The median training length is that of training sequences, and always the same."""
    torch.manual_seed(1)
    median = task.median_training_length()
    torch.manual_seed(2)
    require(task.median_training_length() == median, "the median training length depends on torch's global seed")
    drawn = task.lengths(task.sample(1000, generator(11), split="train").tokens)
    both = (drawn <= median).float().mean() > 0.4 and (drawn >= median).float().mean() > 0.4
    require(both, f"the median training length is said to be {median}")


CHECKS = (
    shapes_and_ranges,
    the_generator_alone_decides,
    truth_fits_the_tokens,
    right_answers_score_one,
    conditions_make_test_sets,
    no_question_is_on_both_sides,
    as_tested_is_the_same_task,
    wrong_draws_are_refused,
    hints_have_heads,
    typed_questions_are_read_back,
    settings_make_the_task,
    delimiters_end_the_question,
    the_median_length_is_fixed,
    the_same_in_another_process,  # last: it takes seconds
)
