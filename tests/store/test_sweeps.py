"""What sweeps asked of a store: one module writes and reads it."""

from pathlib import Path

import pytest

from asyncsim.store import _sweeps as sweeps

STORE = Path(sweeps.__file__).parent
ONE, OTHER = "0" * 16, "1" * 16
SCENARIOS = [
    (ONE, {"case": "slow", "seed": 0, "cluster.workers": 4}),
    (OTHER, {"case": "slow", "seed": 1, "cluster.workers": 4, "rule.window": 5}),
]


def test_settings_in_which_scenarios_agree_are_written_once() -> None:
    sweep = sweeps.settings_of(SCENARIOS, ["case"])
    assert sweep.common == {"case": "slow", "cluster.workers": 4}
    assert sweep.rows == [[ONE, 0, None], [OTHER, 1, 5]]
    assert [digest for digest, _ in sweep.scenarios()] == sweep.digests == [ONE, OTHER]
    assert [settings for _, settings in sweep.scenarios()] == [
        {"rule.window": None, **SCENARIOS[0][1]},
        SCENARIOS[1][1],
    ]


def test_changes_are_labels_and_settings_that_differ() -> None:
    changes = dict(sweeps.settings_of(SCENARIOS, ["case"]).changes())
    assert changes == {ONE: {"case": "slow", "seed": 0}, OTHER: {"case": "slow", "seed": 1, "rule.window": 5}}


def test_sweeps_come_back_in_the_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    written = [sweeps.SweepSettings({}, [], [[ONE]], [], when) for when in ("2025", "2026")]
    for name, sweep in zip(("b", "a"), written, strict=True):
        sweeps.write_sweep(tmp_path, name, sweep)
    (tmp_path / "sweeps" / "c.json").write_text("{")
    assert sweeps.read_sweeps(tmp_path) == (written, [tmp_path / "sweeps" / "c.json"])


def test_files_of_earlier_versions_have_no_labels(tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    sweeps.write_owned(tmp_path / "sweeps" / "a.json", {"fields": ["seed"], "rows": [[ONE, 3]]}, "a")
    assert sweeps.read_sweeps(tmp_path) == ([sweeps.SweepSettings({}, ["seed"], [[ONE, 3]], [])], [])


@pytest.mark.parametrize(
    "module", sorted({*STORE.glob("*.py"), *STORE.parent.glob("study/*.py")}), ids=lambda path: path.stem
)
def test_no_other_module_knows_the_format(module: Path) -> None:
    assert module.stem == "_sweeps" or '"rows"' not in module.read_text(encoding="utf-8")
