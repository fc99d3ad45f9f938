"""The settings of a config under their dotted names."""

from workbench.util.settings import flat_config


def test_heads_of_keys_are_named_only_where_query_heads_share_them() -> None:
    def names(**model: int) -> dict[str, object]:
        return dict(flat_config({"model": {"d_model": 64, **model}}))

    assert names(n_heads=4, n_kv_heads=4) == {"model.d_model": 64, "model.n_heads": 4}
    assert names(n_heads=4, n_kv_heads=2) == {"model.d_model": 64, "model.n_heads": 4, "model.n_kv_heads": 2}
    assert names() == {"model.d_model": 64}
