"""Labels that come with sequences of one's own, for probes: a value at each token, −1 for none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from workbench.tasks.text_labels import NAMES

PREFIX = "label:"  # begins the name of a tensor of labels in a file of sequences


def padded(
    given: Mapping[str, Sequence[Tensor]], rows: Sequence[Int[Tensor, " pos"]]
) -> dict[str, Int[Tensor, "sequence pos"]]:
    """The tensors of a file of sequences that hold these labels.

    Args:
        given: of each label by name its values `[pos]` at the tokens of each sequence.
        rows: the tokens of each sequence.

    Raises:
        ValueError: if a label has not one value from −1 on for each token, its name is taken, or two sequences of the
            same tokens differ in it.
    """
    tensors = {}
    for name, values in given.items():
        if name in NAMES:
            raise ValueError(f"every text has a label {name!r}, so that one of your own needs another name")
        whole = [torch.as_tensor(value).cpu().long() for value in values]
        if [value.shape for value in whole] != [row.shape for row in rows] or any(bool((v < -1).any()) for v in whole):
            raise ValueError(
                f"the label {name!r} needs a number for each token of each sequence: 0, 1, …, or −1 for none"
            )
        seen: dict[bytes, int] = {}
        for i, row in enumerate(rows):
            first = seen.setdefault(row.numpy().tobytes(), i)
            if not torch.equal(whole[first], whole[i]):
                raise ValueError(
                    f"sequences {first + 1} and {i + 1} are the same tokens, and their labels {name!r} differ: "
                    "leave one out"
                )
        tensors[PREFIX + name] = pad_sequence(whole, batch_first=True, padding_value=-1)
    return tensors


def of_numbers(
    tensors: Mapping[str, Tensor], numbers: Sequence[int], width: int
) -> dict[str, Int[Tensor, "batch width"]]:
    """The labels of sequences by their numbers, −1 of one that was not given, by name."""
    given = {name.removeprefix(PREFIX): values for name, values in tensors.items() if name.startswith(PREFIX)}
    return {
        name: pad(values, (0, max(0, width - values.shape[1]), 0, 1), value=-1)[list(numbers), :width]
        for name, values in given.items()
    }
