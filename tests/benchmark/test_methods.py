"""Methods on subjects: each answers in the form asked for, and the traps that are laid for it catch it or do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workbench.benchmark.methods import METHODS
from workbench.benchmark.questions import Asks, Posed, posed
from workbench.benchmark.scoring import score
from workbench.testing.methods import CHECKS

QUICK = [name for name in METHODS if name not in ("causal_test", "das")]


def values(method: str, name: str, asks: Asks, label: str = "", null: str = "") -> dict[str, float]:
    parts = [part for part in posed(name, 1, null) if part.question.asks is asks]
    part = next(part for part in parts if label in ("", part.question.label))
    return scored(method, part)


def scored(method: str, part: Posed) -> dict[str, float]:
    answer = METHODS[method](part.question)
    assert answer is not None
    return score(part, answer, METHODS[method])


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("method", QUICK)
def test_a_method_keeps_its_contract(method: str, check: Callable[[str], None]) -> None:
    check(method)


@pytest.mark.parametrize("name", ["either_head", "shared_out", "late"])
def test_the_two_implementations_of_eap_agree(name: str) -> None:
    (part,) = (part for part in posed(name, 1) if part.question.asks is Asks.EDGES)
    ours, theirs = (METHODS[method](part.question) for method in ("eap", "transformer_lens_eap"))
    assert ours is not None and theirs is not None
    assert theirs.scores == pytest.approx(ours.scores, abs=1e-4)


def test_exact_patching_covers_the_true_effect_and_a_gradient_does_not() -> None:
    assert values("path_patching", "permuted_code", Asks.EDGES)["edges_coverage"] == 1
    assert values("eap", "permuted_code", Asks.EDGES)["edges_coverage"] < 0.9


def test_a_saturated_softmax_has_no_gradient_so_that_eap_misses_its_queries() -> None:
    exact, gradient = (values(m, "shared_out", Asks.EDGES)["edges_carrying"] for m in ("path_patching", "eap"))
    assert (exact, gradient) == (1, 0.75)


def test_cutting_single_edges_misses_backups_and_finds_all_else() -> None:
    assert values("edge_cutting", "inhibition_head", Asks.EDGES)["edges_power"] == 1
    assert values("edge_cutting", "either_head", Asks.EDGES)["edges_power"] < 0.6


def test_direct_attribution_does_not_see_what_an_mlp_passes_on() -> None:
    direct, patched = (
        values(method, "either_head", Asks.NODES)["nodes_power"]
        for method in ("direct_attribution", "activation_patching")
    )
    assert (direct, patched) == (pytest.approx(1 / 3), 1)


def test_a_probe_takes_what_is_held_for_used_and_a_pair_of_token_and_position_for_computed() -> None:
    assert values("probe", "idle_minimum", Asks.USED, "minimum")["used_false_alarms"] > 0.5
    assert values("erasure", "idle_minimum", Asks.USED, "minimum")["used_false_alarms"] == 0
    assert values("probe", "turned_token", Asks.DECODABLE, "turned")["decodable_false_alarms"] == 1
    assert values("probe_controlled", "turned_token", Asks.DECODABLE, "turned")["decodable_false_alarms"] == 0


def test_only_baselines_tell_a_computed_label_from_what_the_token_tells_and_from_what_any_model_holds() -> None:
    alarms, power = "decodable_false_alarms", "decodable_power"
    for method in ("probe", "probe_mlp", "nearest_mean", "description_length"):
        assert values(method, "sorter", Asks.DECODABLE, "successor")[alarms] == 1
    for method, found in (("probe_untrained", 0), ("probe_controlled", 1)):
        assert values(method, "sorter", Asks.DECODABLE, "successor")[alarms] == 0
        assert values(method, "sorter", Asks.DECODABLE, "minimum")[power] == found


def test_a_causal_test_finds_what_is_used_and_not_what_is_idle() -> None:
    assert values("causal_test", "idle_minimum", Asks.USED, "first")["used_power"] == 1
    assert values("causal_test", "idle_minimum", Asks.USED, "minimum")["used_false_alarms"] == 0


def test_a_search_by_gradients_finds_the_subspace_and_principal_components_take_what_varies_most() -> None:
    das, pca = (values(method, "idle_minimum", Asks.WHERE, "first") for method in ("das", "pca"))
    assert das["where_accuracy"] > 0.95 and das["where_arbitrary"] < 0.2
    assert pca["where_accuracy"] < das["where_accuracy"]
