"""Tables of numbers: packed, stacked, selected and written."""

import numpy as np
import pytest

from asyncsim.study.table import columns_of, from_csv, names_of, over_seeds, pack, stack, table, to_csv, where


def test_a_table_survives_its_file(tmp_path):
    columns = {"rule": np.array(["gem", "a,b"]), "workers": np.array([5, 10]), "loss": np.array([np.nan, 0.25])}
    (tmp_path / "a.csv").write_bytes(to_csv(columns))
    back = from_csv(tmp_path / "a.csv")
    assert list(back) == list(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(back[name], column)


def test_packed_tables_can_be_taken_out_again():
    packed = pack(one={"a": [1, 2]}, two={"a": [3.0], "b": ["x"]})
    assert names_of(packed) == ["one", "two"]
    assert {name: column.tolist() for name, column in table(packed, "two").items()} == {"a": [3.0], "b": ["x"]}


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"`curves` must have columns of equal length; got lengths .*'b': 1"):
        pack(curves={"a": [1, 2], "b": [1]})


def test_seeds_are_stacked_below_each_other_or_side_by_side():
    seeds = {s: pack(final=stack({"workers": n, "loss": s + n / 10} for n in (1, 2))) for s in (3, 7)}
    long = columns_of(seeds, "final")
    assert long["seed"].tolist() == [3, 3, 7, 7]
    assert where(long, seed=7, workers=2)["loss"].tolist() == [7.2]
    assert over_seeds([*seeds.values()], "final", "loss", workers=1).tolist() == [[3.1], [7.1]]
