"""What a panel says first: sentences made from the numbers of its figure."""

from __future__ import annotations

import numpy as np

from workbench import tasks
from workbench.judgement.words.figures import arrives, learnt, on_top
from workbench.measurement import Measurement

POSITIONS, WHOLE = tasks.make("induction"), tasks.make("sorting")


def over(dim: str, labels: list, values: list[float], name: str = "Accuracy", units: str = "share") -> Measurement:
    return Measurement(name, np.array(values, dtype=float), (dim,), {dim: labels}, units, {})


def test_the_steps_at_which_half_and_nearly_all_answers_were_right_are_told_of_tokens_and_of_whole_answers() -> None:
    tokens, whole = over("step", [10, 20, 1040], [0.1, 0.7, 0.95]), over("step", [10, 20, 1040], [0, 0.1, 0.6])
    of_tokens = (
        "Answer tokens right: 50% first at step 20, 95% first at step 1,040; 95% at step 1,040, the last evaluation."
    )
    of_whole = "Whole answers right: 50% first at step 1,040, 95% never; 60% at step 1,040, the last evaluation."
    assert learnt({"accuracy": tokens, "whole_answer": whole}, POSITIONS) == f"{of_tokens} {of_whole}"
    assert learnt({"accuracy": whole, "whole_answer": whole}, WHOLE) == of_whole, "they are the same"
    assert learnt({"accuracy": over("step", [], [])}, POSITIONS) is None
    text = tasks.make("text", path="shakespeare")
    of_next = of_tokens.replace("Answer tokens", "Next tokens")
    assert learnt({"accuracy": tokens, "whole_answer": whole}, text) == of_next, "no text is right as a whole"


def top(words: list[list[str]]) -> Measurement:
    points = ["hook_embed", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"][: len(words)]
    values, coords = np.ones((len(words), len(words[0]))), {"point": points, "position": list(range(len(words[0])))}
    return Measurement("Top", values, ("point", "position"), coords, "x", {}, labels=np.array(words))


def test_where_right_answers_come_on_top_is_counted_at_scored_positions_alone() -> None:
    told = on_top(top([["7", "1", "9"], ["7", "2", "9"], ["0", "2", "3"]]), ["", "2", "3"])
    assert told == (
        "The right answer is on top after MLP 0 at 2 of 2 scored positions, at 1 of them already after attention 0, "
        "before that at none."
    )
    at_once = on_top(top([["1", "2"], ["1", "2"]]), ["1", "2"])
    assert at_once is not None and at_once.endswith("at 2 of them already at hook_embed.")
    assert on_top(top([["7"], ["7"]]), [""]) is None, "nothing is asked for"
    never = on_top(top([["7", "7"], ["7", "7"]]), ["1", "2"])
    assert never is not None and "at 0 of 2" in never and never.endswith("at no point before at half of them.")


def test_what_arrives_is_the_share_on_the_true_ancestors_of_each_hop() -> None:
    names = ["0:a", "1:b", "2:c"]
    values = np.zeros((2, 3, 3))
    values[0, 2] = [0.1, 0.9, 0]
    values[1, 2] = [0.75, 0.25, 0]
    coords = {"hop": [1, 2], "query": names, "key": names}
    steps = Measurement("Steps", values, ("hop", "query", "key"), coords, "share", {})
    gold = [(1, 2, 1), (2, 2, 0), (3, 2, 0), (1, 1, 0)]
    assert (
        arrives(steps, gold, 2)
        == "From 2:c this much arrives where the task's true edges lead: hop 1: 90%; hop 2: 75%."
    )
    both = arrives(steps, [*gold, (1, 2, 0)], 2)
    assert both == "From 2:c this much arrives where the task's true edges lead: hop 1: 100%; hop 2: 75%."
    assert arrives(steps, gold, 0) is None
