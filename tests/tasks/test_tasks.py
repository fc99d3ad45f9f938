"""Each task against a slow, obvious computation of the same thing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from workbench.tasks import correct, make
from workbench.tasks.pointer_chain import PointerChain
from workbench.tasks.sorting import Sorting
from workbench.util.seeds import generator

ROWS = [
    line
    for line in (Path(__file__).parents[1] / "data" / "multiplication_rows.txt")
    .read_text(encoding="utf-8")
    .splitlines()
    if not line.startswith("#")
]


class TestPointerChain:
    def walk(self, tokens: list[int], position: int, k: int) -> list[int]:
        """The positions on a chain, nearest first, by following pointers one by one."""
        chain = []
        while position >= k:
            position = tokens[position]
            chain.append(position)
        return chain

    def test_chains_roots_and_edges_equal_walking_them(self) -> None:
        task = PointerChain(n=20, k=4)
        batch, roots = task.sample(6, generator(0)), make("pointer_chain", n=20, k=4, reading="root")
        truth = task.truth(batch.tokens)
        edges = {tuple(edge) for edge in truth.edges.tolist()}
        expected = set()
        for b, tokens in enumerate(batch.tokens.tolist()):
            for t in range(20):
                chain = self.walk(tokens, t, 4)
                expected |= {(b, hop, t, place) for hop, place in enumerate(chain, 1)}
                assert batch.targets[b, t].nonzero().flatten().tolist() == sorted(chain)
                assert truth.labels["depth"][b, t] == (len(chain) or -1)
                assert truth.labels["root"][b, t] == (tokens[chain[-1]] if chain else -1)
                assert truth.labels["root_position"][b, t] == (chain[-1] if chain else -1)
                assert truth.labels["parent"][b, t] == (chain[0] if chain else -1)
        assert edges == expected
        same = roots.sample(6, generator(0))
        assert torch.equal(same.tokens, batch.tokens)
        assert torch.equal(same.targets[same.loss_mask], truth.labels["root"][same.loss_mask])

    def test_the_drawing_in_the_docstring_is_what_the_task_says(self) -> None:
        task = PointerChain(n=9, k=3, reading="chain")
        batch = task.parse("7 0 4 | 2 0 1 | 5 3 4")
        tokens, doc = batch.tokens[0].tolist(), PointerChain.__doc__ or ""
        for name, numbers in (("position", list(range(9))), ("token", tokens)):
            blocks = (" ".join(map(str, numbers[at : at + 3])) for at in (0, 3, 6))
            assert f"{name:11}" + " | ".join(blocks) in doc
        chain = task.ancestors(batch.tokens)[0, 6].tolist()
        held = ", ".join(f"position {t} holds {tokens[t]}" for t in (6, *chain))
        root = task.truth(batch.tokens).labels["root"][0, 6]
        assert f"P{held[1:]}: the chain of 6 is {chain}, and its root's value is {root}." in doc
        assert batch.targets[0, 6].nonzero().flatten().tolist() == sorted(chain)

    @pytest.mark.parametrize(("n", "k", "chance"), [(32, 4, 0.30), (64, 8, 0.17)])
    def test_the_commonest_value_of_block_0_is_right_as_often_as_stated(self, n: int, k: int, chance: float) -> None:
        batch = PointerChain(n=n, k=k, reading="root").sample(4000, generator(4))
        guess = batch.tokens[:, :k].mode(-1).values
        right = (batch.targets == guess[:, None])[batch.loss_mask].float().mean().item()
        assert right == pytest.approx(chance, abs=0.015)

    @pytest.mark.parametrize(("layers", "accuracy"), [(1, 0.45), (2, 0.65), (3, 0.87), (4, 1.0)])
    def test_reach_of_two_to_the_layers_then_chance_scores_as_stated(self, layers: int, accuracy: float) -> None:
        """Theorem 1's reach, the rest of the chain guessed within the right blocks."""
        task = PointerChain(n=128, k=8)
        batch = task.sample(24, generator(1))
        ancestors = task.ancestors(batch.tokens)
        guess = torch.rand(24, 128, 16, 8, generator=generator(2)).argsort(-1)[..., 0] + 8 * torch.arange(16)
        logits = torch.zeros(24, 128, 129)
        depth = torch.arange(128) // 8
        for hop in range(1, 16):
            known = ancestors[..., hop - 1]
            block = (depth - hop).clamp(min=0).expand(24, 128).unsqueeze(-1)
            chosen = known if hop <= 2**layers else torch.where(known >= 0, guess.gather(2, block).squeeze(-1), -1)
            logits.scatter_(2, torch.where(chosen < 0, 128, chosen).unsqueeze(-1), 1.0)
        score = correct(logits[..., :128], batch)[batch.loss_mask].mean().item()
        assert score == pytest.approx(accuracy, abs=0.015)

    def test_chain_accuracy_by_hop_asks_for_each_ancestor(self) -> None:
        task = PointerChain(n=12, k=3)
        batch = task.sample(4, generator(3))
        own_token_only = torch.nn.functional.one_hot(batch.tokens, 12).float()
        own_token_only[..., :] -= torch.arange(12) * 1e-3  # ties go to low positions
        by_hop = task.accuracy_by_group(own_token_only, batch, task.truth(batch.tokens))
        assert bool((by_hop[:, 0] == 1).all()) and bool((by_hop[:, 1:] < 1).all())

    def test_chain_accuracy_by_hop_equals_looking_up_each_ancestor(self) -> None:
        task = PointerChain(n=12, k=3)
        batch = task.sample(5, generator(5))
        logits = torch.randn(5, 12, 12, generator=generator(6)) + batch.targets
        by_hop = task.accuracy_by_group(logits, batch, task.truth(batch.tokens))
        for b, tokens in enumerate(batch.tokens.tolist()):
            chains = [self.walk(tokens, t, 3) for t in range(12)]
            best = [set(logits[b, t].topk(len(chain)).indices.tolist()) for t, chain in enumerate(chains)]
            for hop in task.groups:
                found = [chain[hop - 1] in best[t] for t, chain in enumerate(chains) if len(chain) >= hop]
                assert by_hop[b, hop - 1] == pytest.approx(sum(found) / len(found))

    @pytest.mark.parametrize("reading", ["chain", "root"])
    def test_depths_that_a_shorter_chain_has_not_are_nan(self, reading: str) -> None:
        task = make("pointer_chain", n=12, k=3, reading=reading)
        batch = task.parse("4 5 6 2 0 1")
        by_hop = task.accuracy_by_group(torch.zeros(1, 6, 12), batch, task.truth(batch.tokens))
        assert by_hop.isnan().tolist() == [[False, True, True]]

    @pytest.mark.parametrize(
        ("text", "message"),
        [("1 2", "whole blocks of 3"), ("1 2 3 0 1 1", "positions 0 1 2"), ("1 2 x", "'x'"), ("", "not 0")],
    )
    def test_what_is_no_chain_is_refused(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            PointerChain(n=9, k=3).parse(text)


class TestSorting:
    def test_output_and_labels_equal_sorting_by_hand(self) -> None:
        task = Sorting(q=9, max_length=8, repetition=0.5)
        batch = task.sample(40, generator(0))
        truth = task.truth(batch.tokens)
        for b, tokens in enumerate(batch.tokens.tolist()):
            n = tokens.index(9)
            inputs, outputs = tokens[:n], tokens[n + 1 : 2 * n + 1]
            assert outputs == sorted(inputs) and set(tokens[2 * n + 1 :]) <= {10}
            assert batch.targets[b][batch.loss_mask[b]].tolist() == outputs
            assert truth.labels["minimum"][b, n] == min(inputs)
            assert truth.labels["successor"][b, n + 1 : 2 * n].tolist() == outputs[1:]
            assert truth.labels["identity"][b, n + 1 : 2 * n + 1].tolist() == outputs
            left = [outputs[i + 1 :].count(symbol) for i, symbol in enumerate(outputs)]
            assert truth.labels["copies_left"][b, n + 1 : 2 * n + 1].tolist() == left
            edges = {(q, k) for e, _, q, k in truth.edges.tolist() if e == b}
            wanted = {n: min(inputs)} | {n + 1 + i: outputs[i + 1] for i in range(n - 1)}
            assert edges == {(q, k) for q, symbol in wanted.items() for k in range(n) if inputs[k] == symbol}

    def test_the_drawing_in_the_docstring_is_what_the_task_says(self) -> None:
        task = Sorting()
        batch = task.parse("5 3 3 9")
        words = task.words(batch.tokens[0])
        marks = ["^" if scored else " " for scored in batch.loss_mask[0]]
        doc = Sorting.__doc__ or ""
        assert "input    " + " ".join(words) in doc
        assert ("scored   " + " ".join(marks)).rstrip() in doc

    def test_lengths_follow_the_stated_distribution(self) -> None:
        n = 20_000
        paper = Sorting(max_length=20, skew="paper").sample(n, generator(1)).tokens
        lengths = (paper == 32).long().argmax(-1)
        short = (lengths <= 5).float().mean().item()
        assert short == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / n) ** 0.5)
        uniform = (Sorting(max_length=16).sample(n, generator(2)).tokens == 32).long().argmax(-1)
        counts = torch.bincount(uniform, minlength=17)[2:].float()
        chi_square = ((counts - n / 15) ** 2 / (n / 15)).sum().item()
        assert chi_square < 36.1  # 0.1 % of a chi-square with 14 degrees of freedom

    def test_repeated_sequences_draw_from_at_most_half_as_many_symbols(self) -> None:
        batch = Sorting(q=100, max_length=16, repetition=1.0).sample(300, generator(3), length=10)
        assert max(len(set(tokens[:10])) for tokens in batch.tokens.tolist()) <= 5

    @pytest.mark.parametrize("text", ["", "0", "33", "1 two", " ".join(["1"] * 17)])
    def test_what_is_no_input_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="between 1 and 32"):
            Sorting().parse(text)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("sorting", {"max_length": 5}), ("multiplication", {"digits": 3}), ("pointer_chain", {"n": 16, "k": 4})],
)
def test_accuracy_by_group_equals_counting_by_hand(name: str, settings: dict[str, int]) -> None:
    task = make(name, **settings, **({"reading": "root"} if name == "pointer_chain" else {}))
    batch = task.sample(40, generator(8))
    truth = task.truth(batch.tokens)
    answers = torch.nn.functional.one_hot(batch.targets, len(task.vocabulary))
    logits = torch.randn(answers.shape, generator=generator(9)) + 5 * answers
    by_group = task.accuracy_by_group(logits, batch, truth)
    for b in range(40):
        scored = batch.loss_mask[b].nonzero().flatten().tolist()
        right = {t: bool(logits[b, t].argmax() == batch.targets[b, t]) for t in scored}
        for g, value in enumerate(task.groups):
            members = [right[t] for t in scored if truth.labels[task.group_label][b, t] == value]
            if not members:
                assert by_group[b, g].isnan()
            elif task.unit == "sequence":
                assert by_group[b, g] == all(right.values())
            else:
                assert by_group[b, g] == pytest.approx(sum(members) / len(members))
    assert 0 < by_group.nanmean() < 1


class TestMultiplication:
    @pytest.mark.parametrize("line", ROWS)
    def test_public_rows_are_rebuilt_from_their_operands(self, line: str) -> None:
        a, b = (int("".join(reversed(side.split()))) for side in line.split("||")[0].split("*"))
        task = make("multiplication", digits=len(str(a)), mode="chain_of_thought")
        assert " ".join(task.words(task.parse(f"{a} * {b}").tokens[0])).replace(" || ", "||") == line

    def test_there_are_100_public_rows(self) -> None:
        assert len(ROWS) == 100

    @pytest.mark.parametrize("digits", [1, 2, 5, 12])
    @pytest.mark.parametrize("mode", ["plain", "pause", "chain_of_thought"])
    def test_product_is_python_s(self, digits: int, mode: str) -> None:
        task = make("multiplication", digits=digits, mode=mode)
        batch = task.sample(50, generator(0))
        for words in map(task.words, batch.tokens):
            a, b, product = (
                int("".join(reversed(part)))
                for part in (words[:digits], words[digits + 1 : 2 * digits + 1], words[-2 * digits :])
            )
            assert a * b == product and len(str(a)) == len(str(b)) == digits

    def test_drawings_in_the_docstring_are_what_the_task_says(self) -> None:
        for mode in ("plain", "pause", "chain_of_thought"):
            task = make("multiplication", digits=2, mode=mode)
            drawn = f"{mode:20}" + " ".join(task.words(task.parse("12 * 34").tokens[0]))
            assert drawn in (type(task).__doc__ or "")
        for removed in (3, 8):
            task = make("multiplication", mode="chain_of_thought", thoughts_removed=removed)
            assert f"        {' '.join(task.words(task.parse('12 * 34').tokens[0]))}\n" in (type(task).__doc__ or "")

    @pytest.mark.parametrize("removed", range(9))
    def test_a_thought_without_its_beginning_keeps_the_rest_and_the_truth_of_it(self, removed: int) -> None:
        whole, task = (make("multiplication", mode="chain_of_thought", thoughts_removed=n) for n in (0, removed))
        (before, after), asked = (one.sample(9, generator(1)) for one in (whole, task)), 6
        kept = [*range(asked), *range(asked + removed, before.tokens.shape[1])]
        assert torch.equal(after.tokens, before.tokens[:, kept]) and after.tokens.shape[1] == task.n_ctx
        # The last token that is there still has predicted what comes next: the sign || now the rest of the thought.
        assert torch.equal(after.targets[:, asked:], before.targets[:, asked + removed :])
        assert after.targets[:, asked - 1].tolist() == before.tokens[:, asked + removed].tolist()
        assert after.loss_mask.sum(1).tolist() == [8 - removed + 1 + 4] * 9
        first, second = whole.truth(before.tokens), task.truth(after.tokens)
        assert all(torch.equal(second.labels[name], first.labels[name][:, kept]) for name in first.labels)
        assert all(torch.equal(second.arrays[name], first.arrays[name]) for name in first.arrays)
        assert torch.equal(second.edges[:, 2], first.edges[:, 2] - removed)
        assert torch.equal(second.edges[:, [0, 1, 3]], first.edges[:, [0, 1, 3]])
        assert torch.equal(task.is_test(after.tokens), whole.is_test(before.tokens))

    def test_pauses_are_not_scored_and_share_one_token(self) -> None:
        task = make("multiplication", mode="pause", n_pause=4)
        batch = task.sample(3, generator(1))
        words = task.words(batch.tokens[0])
        assert words.count("<pause>") == 4 and words.index("####") == words.index("</pause_end>") + 1
        assert [words[t + 1] for t in range(len(words)) if batch.loss_mask[0, t]] == words[-4:]

    def test_carries_and_operations_are_the_schoolbook_s(self) -> None:
        task = make("multiplication", digits=3)
        batch = task.parse("987 * 654")
        labels = task.truth(batch.tokens).labels
        scored = batch.loss_mask[0]
        a, b, carry, carries = [7, 8, 9], [4, 5, 6], 0, []
        for place in range(6):
            carries.append(carry)
            carry = (carry + sum(a[i] * b[place - i] for i in range(3) if 0 <= place - i < 3)) // 10
        assert labels["digit"][0][scored].tolist() == list(range(6))
        assert labels["carry"][0][scored].tolist() == carries
        assert labels["operations"][0][scored].tolist() == [1, 2, 3, 2, 1, 0]

    @pytest.mark.parametrize(("a", "b", "digits"), [(5, 66, 2), (-5, 6, 1), (0, 6, 1), (5, 6, 2)])
    def test_operands_that_do_not_fit_are_refused_in_one_line(self, a: int, b: int, digits: int) -> None:
        with pytest.raises(ValueError, match=f"type two numbers of exactly {digits} digits") as caught:
            make("multiplication", digits=digits).parse(f"{a} * {b}")
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("text", ["12", "1 * 34", "12 * x", "012 * 34", "02 * 34", "12 + 34"])
    def test_what_is_no_product_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="type two numbers of exactly 2 digits"):
            make("multiplication").parse(text)


def test_depth_is_of_the_query_and_hop_of_the_ancestor() -> None:
    """Answers at the root are broken down by the query's depth, those of every ancestor by its distance."""
    roots, chains = (make("pointer_chain", n=16, k=4, reading=reading) for reading in ("root", "chain"))
    assert (roots.group, chains.group) == ("depth", "hop")
    batch = chains.sample(50, generator(0))
    truth = chains.truth(batch.tokens)
    assert "hop" not in truth.labels
    assert torch.equal(truth.labels["depth"], torch.where(batch.loss_mask, batch.targets.sum(-1), -1))
    first_only = torch.nn.functional.one_hot(batch.tokens, 16).float()
    by_hop = chains.accuracy_by_group(first_only, batch, truth).nanmean(0)
    assert by_hop[0] == 1 and by_hop[2] < 0.8, "what is one hop away is right, however deep the query"
