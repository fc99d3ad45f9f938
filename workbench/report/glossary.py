"""The words that figures, reports and the explorer use, each in a sentence or two."""

from __future__ import annotations

GLOSSARY: dict[str, str] = {
    "attention pattern": (
        "A head's matrix of weights, a row for each query and a column for each key. Of softmax attention each row "
        "sums to 1."
    ),
    "baseline": (
        "What a probe without the model's help reaches: the current token, its position, the most frequent label."
    ),
    "beyond its controls": (
        "Said of a claim that one further uninformed model, or a further count of a control, would hardly hold as "
        "often."
    ),
    "causal test": (
        "The model computes on from an edit inside it, and its answers are compared with those without the edit. "
        "The same edit elsewhere, and in uninformed models, stands beside it."
    ),
    "ChaCAL": (
        "Chain and causal attention: the pattern is read as the adjacency matrix of a graph, and one layer adds up "
        "paths of every length through it."
    ),
    "control": (
        "The same measure where the claim should fail: another example's truth, a random graph, a random basis, "
        "re-initialised models. It is beyond its controls where a further one would hardly reach its rate."
    ),
    "decoder basis": (
        "The columns of the unembedding, one for each token: what a residual would be read as at the output."
    ),
    "delimiter ⊥": "The token that ends the input; what follows it is the answer.",
    "description length": (
        "The bits that a probe needs to send the labels, its own fitting included: short where the label is easy to "
        "read."
    ),
    "edited, elsewhere": (
        "Of answers that were right, how many change when the model computes on from an edit of what a claim is about; "
        "and from the same edit of another place, or one as large in a direction of no meaning."
    ),
    "encoder basis": "The rows of the embedding, one for each token: what a residual looks like as an input token.",
    "excess": "What an edit does beyond its control edits.",
    "γ": "The weight of each further step of a path in ChaCAL. With γ = 0 it is standard attention.",
    "gold edge": (
        "An edge of the task's true graph, from a query to a key that holds what it needs. Hop h leads h steps "
        "away. The model never sees it."
    ),
    "held-out": "Not trained on: a fingerprint of each question decides whether it is for training or for testing.",
    "hint": (
        "An auxiliary task on the same input, such as the successor of each symbol, with an output head of its own."
    ),
    "hop": "A step along the gold edges; also a step through an attention pattern.",
    "mass on true edges": "The share of what a query reads that comes along gold edges (gold mass).",
    "matrix entropy": (
        "The Rényi entropy of the eigenvalues of the tokens' Gram matrix, scaled to trace 1. It is low where "
        "representations collapse onto few directions."
    ),
    "mechanism": "A claim about how a model solves its task, with a score, controls and a causal test.",
    "mixing matrix": (
        "The matrix that a layer applies to its values: the pattern itself, or for ChaCAL the resolvent."
    ),
    "nearest control": "The control that a claim exceeds least clearly, beside it in counts.",
    "needed": (
        "Said of a claim whose edit changes right answers as claimed: more than a tenth of them, more than the same "
        "edit elsewhere, and more than a further uninformed model would."
    ),
    "not compared": (
        "Said where uninformed models have too few right answers to edit, so that whether the answers need a claim "
        "cannot be told from them."
    ),
    "not found": "Said of a claim that holds in less than 5 % of cases. It may be held elsewhere, or in another basis.",
    "pause token": "A token between question and answer that gives the model more positions to compute in.",
    "points at": "A residual points at the token whose basis vector has the largest inner product with it.",
    "re-initialised model": (
        "A model of the same shape with its initial weights drawn anew: the random-initialisation baseline."
    ),
    "residual: pre, mid, post": (
        "The residual stream before a block, between its attention and its MLP, and after it."
    ),
    "resolvent": (
        "(1 − γ) A (I − γ A)⁻¹, the weights of all paths through the graph A at once; ChaCAL leaves the diagonal of "
        "the inner A out."
    ),
    "Seq-VCR": (
        "A variance and covariance loss that keeps the representations of each position from collapsing over a batch."
    ),
    "tempered softmax": (
        "Softmax whose scores grow with the logarithm of the length, so that it stays sharp on long inputs."
    ),
    "test condition": "A setting of the held-out sequences, such as their length; a test set for each.",
    "uninformed model": (
        "A model that has not learned the task: re-initialised, or with the numbers of each of the run's weight "
        "matrices shuffled."
    ),
    "without a head": (
        "The head writes nothing, at any position (it is ablated). An answer is lost if it was right and then is not."
    ),
}
"""Word -> what it means."""
