"""Means, paired differences and LaTeX over seeds, from tables with known numbers."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from asyncsim.study._over_seeds import differences
from asyncsim.study.table import SweepTable, best
from tests.problems import refusals

NAN = math.nan


def table_of(fields=("rule", "seed"), **columns):
    return SweepTable({name: np.array(values) for name, values in columns.items()}, [f for f in fields if f in columns])


def two(a, b, seeds=None, **more):
    """Losses of the rules "a" and "b", at the seeds 0, 1, … unless they are given."""
    seeds = seeds or ([*range(len(a))], [*range(len(b))])
    return table_of(rule=["a"] * len(a) + ["b"] * len(b), seed=[*seeds[0], *seeds[1]], final_loss=[*a, *b], **more)


def only(table):
    return {name: values[0].item() for name, values in table.items()}


@pytest.mark.parametrize("count", [2, 3, 12, 40])
def test_the_interval_is_that_of_a_paired_t_test(count):
    rng = np.random.default_rng(count)
    a = rng.normal(size=count)
    b = a + rng.normal(0.1, 0.2, count)
    found = only(differences(two(a, b), "rule"))
    expected = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high), rel=1e-10)
    assert found["difference"] == pytest.approx((b - a).mean(), rel=1e-12)


def test_the_interval_holds_the_true_difference_in_95_of_100_experiments():
    rng, experiments, truth = np.random.default_rng(0), 2000, 0.3
    held = 0
    for _ in range(experiments):
        a = rng.normal(size=6)
        found = only(differences(two(a, a + rng.normal(truth, 1.0, 6)), "rule"))
        held += found["low"] <= truth <= found["high"]
    error = math.sqrt(0.95 * 0.05 / experiments)
    assert held / experiments == pytest.approx(0.95, abs=4 * error)


def test_pairs_are_made_by_seed_and_not_by_order():
    found = only(differences(two([0.1, 0.2, 0.4], [0.5, 0.21, 0.12], ([0, 1, 2], [2, 1, 0])), "rule"))
    assert found["difference"] == pytest.approx(np.mean([0.02, 0.01, 0.1]))
    assert (found["pairs"], found["unpaired"]) == (3, 0)


def test_seeds_of_one_side_are_left_out_and_counted():
    found = only(differences(two([0.1, 0.2, 0.3], [0.2, 0.4], ([0, 1, 2], [1, 5])), "rule"))
    assert (found["pairs"], found["unpaired"]) == (1, 3)
    assert "at 1 seed, so there is no interval" in found["verdict"]
    assert "3 seeds without a partner left out" in found["verdict"]


def test_no_common_seed_is_no_difference_at_all():
    found = only(differences(two([0.1], [0.2], ([0], [1])), "rule"))
    assert found["pairs"] == 0
    assert math.isnan(found["difference"])
    assert found["verdict"].startswith("b − a: no seed at which both have a result")


def test_one_seed_has_no_interval():
    found = only(differences(two([0.1], [0.2]), "rule"))
    assert math.isnan(found["low"])
    assert math.isnan(found["high"])
    assert "give two seeds or more" in found["verdict"]


@pytest.mark.parametrize("lost", [NAN, math.inf, 7.0])
def test_a_run_that_diverged_is_counted_and_in_no_mean(lost):
    """Also where a metric of the parameters at the end is finite."""
    table = two([0.1, 0.2, 0.3, 0.4], [0.2, lost, 0.5, 0.55], diverged_at=[NAN] * 5 + [17.0, NAN, NAN])
    found = only(differences(table, "rule"))
    expected = stats.ttest_rel([0.2, 0.5, 0.55], [0.1, 0.3, 0.4]).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert (found["pairs"], found["diverged"], found["baseline_diverged"]) == (3, 1, 0)
    assert "b diverged at 1 of the seeds, which are left out" in found["verdict"]
    of_b = {name: values[1].item() for name, values in table.means().items()}
    assert of_b["final_loss"] == pytest.approx(np.mean([0.2, 0.5, 0.55]))
    assert (of_b["runs"], of_b["diverged"], of_b["missing"]) == (4, 1, 0)


@pytest.mark.parametrize("seeds", [[NAN] * 4, [NAN, 3.0, NAN, 3.0]])
def test_a_seed_that_is_absent_on_both_sides_is_the_same(seeds):
    table = table_of(
        ("rule", "seed", "schedule_seed"),
        rule=["a", "a", "b", "b"],
        seed=[0, 1, 0, 1],
        schedule_seed=seeds,
        final_loss=[0.1, 0.2, 0.3, 0.5],
    )
    found = only(differences(table, "rule"))
    assert (found["pairs"], found["unpaired"]) == (2, 0)
    assert found["difference"] == pytest.approx(0.25)


@pytest.mark.parametrize("scale", [1e-5, 1e-4, 1.0, 1e6, 1e9])
def test_a_verdict_tells_the_ends_of_a_narrow_interval_apart(scale):
    a = np.array([3.0, 2.0, 4.0])
    b = a + 5.122 + np.array([-1e-3, 0.0, 1e-3])
    (words,) = differences(two(a * scale, b * scale), "rule")["verdict"].tolist()
    low, high = re.search(r"95 %: (\S+) to (\S+),", words.replace("−", "-")).groups()
    found = only(differences(two(a * scale, b * scale), "rule"))
    # The half width has two digits, of which the last one may be rounded up or down.
    half = (found["high"] - found["low"]) / 2
    assert float(low) == pytest.approx(found["low"], abs=half / 10)
    assert float(high) == pytest.approx(found["high"], abs=half / 10)


def test_both_may_have_diverged_everywhere():
    table = two([NAN, NAN], [NAN, NAN], diverged_at=[1.0] * 4)
    found = only(differences(table, "rule"))
    assert (found["pairs"], found["diverged"], found["baseline_diverged"]) == (0, 2, 2)
    assert np.isnan(table.means("final_loss")["final_loss"]).all()


def test_a_run_that_is_missing_is_not_one_that_diverged():
    table = two([0.1, 0.2], [NAN, 0.4], diverged_at=[NAN] * 4, status=["done", "done", "failed", "done"])
    found = only(differences(table, "rule"))
    assert (found["pairs"], found["diverged"], found["unpaired"]) == (1, 0, 1)
    assert table.means()["missing"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("a", "b", "by", "words"),
    [
        ([0.30, 0.31], [0.20, 0.2101], "final_loss", "b is better"),
        ([0.20, 0.2101], [0.30, 0.31], "final_loss", "b is worse"),
        ([0.30, 0.31], [0.20, 0.2101], "test_accuracy", "b is worse"),
        ([0.1, 0.3], [0.2, 0.25], "final_loss", "no difference shown"),
        ([0.1, 0.3], [0.1, 0.3], "final_loss", "no difference shown"),
    ],
)
def test_the_words_of_a_verdict(a, b, by, words):
    table = table_of(rule=["a", "a", "b", "b"], seed=[0, 1, 0, 1], **{by: [*a, *b]})
    assert only(differences(table, "rule", by))["verdict"].endswith(words)


def test_the_digits_of_a_verdict_are_those_of_its_interval():
    a = np.linspace(0.1, 0.2, 12)
    b = a - 0.012 + 0.0125 * np.array([-1, 1] * 6)
    (words,) = differences(two(a, b), "rule")["verdict"].tolist()
    assert re.fullmatch(r"b − a: −0\.0120 \(95 %: −0\.0203 to −0\.0037, 12 seeds\); b is better", words), words


def test_the_first_is_the_baseline_unless_another_is_named():
    table = table_of(rule=["c", "c", "a", "a", "b", "b"], seed=[0, 1] * 3, final_loss=[0.1, 0.2, 0.2, 0.4, 0.5, 0.5])
    assert set(differences(table, "rule")["baseline"].tolist()) == {"c"}
    found = differences(table, "rule", baseline="b")
    assert found["rule"].tolist() == ["c", "a"]
    np.testing.assert_allclose(found["difference"], [-0.35, -0.2])


def test_other_fields_are_matched_and_fields_of_one_side_are_said():
    table = table_of(
        ("rule", "workers", "kappa", "seed"),
        rule=["a"] * 4 + ["b"] * 4,
        workers=[2, 2, 4, 4] * 2,
        kappa=[NAN] * 4 + [1.0] * 4,
        seed=[0, 1] * 4,
        final_loss=[0.1, 0.2, 0.3, 0.4, 0.2, 0.3, 0.7, 0.8],
    )
    found = differences(table, "rule")
    assert found["workers"].tolist() == [2, 4]
    np.testing.assert_allclose(found["difference"], [0.1, 0.4])
    assert found["also"].tolist() == ["kappa", "kappa"]


RATES = {
    "rule": ["a"] * 4 + ["b"] * 4,
    "learning_rate": [0.1, 0.1, 0.2, 0.2, 0.4, 0.4, 0.8, 0.8],
    "seed": [0, 1] * 4,
    "final_loss": [0.5, 0.6, 0.3, 0.3, 0.9, 0.9, 0.2, 0.1],
}


def test_each_at_its_best_step_size():
    table = table_of(("rule", "learning_rate", "seed"), **RATES)
    found = only(differences(table, "rule", at_best=True))
    assert found["difference"] == pytest.approx(-0.15)
    assert found["also"] == "learning_rate"


test_what_is_refused = refusals(
    ({"of": "ruel"}, "`of` must be one of"),
    ({"of": "seed"}, "`of` must be one of"),
    ({"by": "final_los"}, "Did you mean 'final_loss'"),
    ({"baseline": "c"}, "`baseline` must be one of"),
    call=lambda arguments: differences(two([0.1, 0.2], [0.3, 0.4]), **{"of": "rule", **arguments}),
)


@pytest.mark.parametrize("extra", [{"kappa": [1.0, 2.0, NAN]}, {}])
def test_several_runs_of_one_seed_are_refused(extra):
    table = table_of(
        ("rule", "kappa", "seed"), rule=["a", "a", "b"], seed=[0, 0, 0], final_loss=[1.0, 2.0, 3.0], **extra
    )
    differ = "kappa" if extra else "nothing"
    with pytest.raises(ValueError, match=f"several runs of one seed, which differ in {differ}"):
        differences(table, "rule")


def test_runs_of_different_length_are_not_compared():
    lengths = {"commits": [40, 40, 80, 80]}
    table = table_of(
        ("rule", "commits", "seed"), rule=["a", "a", "b", "b"], seed=[0, 1] * 2, final_loss=[1.0] * 4, **lengths
    )
    for call in (lambda: differences(table, "rule"), lambda: best(table)):
        with pytest.raises(ValueError, match=r"`commits` differs \(40, 80\), and results of runs of different length"):
            call()
    assert best(table, per="commits").rows == 2
    assert best(table, any_length=True).rows == 1


def test_means_have_the_standard_error_of_a_mean():
    found = only(table_of(seed=[0, 1, 2], final_loss=[0.1, 0.2, 0.6], test_accuracy=[0.5, 0.6, 0.7]).means())
    assert found["final_loss_error"] == pytest.approx(stats.sem([0.1, 0.2, 0.6]))
    assert found["test_accuracy"] == pytest.approx(0.6)


def test_a_mean_of_one_run_has_no_error():
    table = table_of(rule=["a", "b"], final_loss=[0.1, 0.2])
    assert np.isnan(table.means()["final_loss_error"]).all()
    assert "\\pm" not in table.latex()


LOSSES = [1e-9, 2e-9, 1e7, 2e7, 0.1, 0.2, 0.0, 0.0, NAN, NAN, 0.3, NAN]
NASTY = ["ea_sgd", "50%", "a&b", "$x$", "#1", "{x}", "~", "^", "\\end{tabular}", "k = 4 − 2"]


def test_a_latex_table_is_balanced_and_escaped():
    table = table_of(
        rule=[name for name in NASTY for _ in range(2)],
        seed=[0, 1] * len(NASTY),
        final_loss=[*LOSSES, 12.0, 13.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        diverged_at=[NAN] * 8 + [1.0, 2.0, NAN, 3.0] + [NAN] * 8,
    )
    tex = table.latex()
    lines = tex.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[-1] == r"\end{tabular}"
    assert lines.count(r"\end{tabular}") == 1
    body = [line for line in lines if line.endswith(r" \\")]
    assert len(body) == 1 + len(NASTY)
    for line in body:
        bare = re.sub(
            r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]", "", line.removesuffix(r" \\")
        )
        assert bare.count("&") == 3, line
        assert bare.count("$") % 2 == 0
        assert bare.count("{") == bare.count("}")
        assert not set("#%_~") & set(bare)
        assert all(power.group(1) for power in re.finditer(r"\^(\{-?\d+\})?", bare))
        assert tex.isascii()
    assert r"\textbackslash{}end\{tabular\} & $2.50 \pm 0.50$ & 2 & 0 \\" in lines


def test_the_powers_of_a_latex_table():
    tex = table_of(seed=[0, 1], final_loss=[1e-9, 2e-9]).latex()
    assert r"$(1.50 \pm 0.50) \times 10^{-9}$" in tex
