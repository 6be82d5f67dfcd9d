"""Scenarios: their definition, their equality, and overrides of their fields."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import components
from asyncsim.components._annotations import text_kind_of
from asyncsim.components._families import built_in_classes
from asyncsim.components._field import describe_changes
from asyncsim.components._parse import WHOLE
from asyncsim.components._settings import parameters_of as arguments
from asyncsim.scenario._scenario import all_fields
from asyncsim.scenario._tree import STUDY_FIELDS
from tests.delays.laws import Own
from tests.problems import assert_refused, refusals

scenario = partial(
    asim.Scenario,
    cluster=asim.Cluster(workers=4, compute=asim.delays.Gamma(mean=2.0, cv=0.3)),
    rule=asim.rules.GEM(learning_rate=0.05),
    workload=asim.workloads.Quadratic([1.0, 0.1]),
    commits_per_worker=25,
)


@pytest.mark.quick
class TestLength:
    def test_commits_per_worker_are_multiplied_by_the_workers_and_seconds_are_a_bound(self) -> None:
        assert scenario().total == len(scenario().simulate()) == 100
        assert scenario().override(workers=8).total == 200
        timed = scenario(commits_per_worker=None, seconds=30.0)
        assert timed.total is None
        assert timed.simulate().seconds <= 30.0

    def test_a_new_length_replaces_the_old_one(self) -> None:
        assert scenario().override(commits=7).total == 7
        assert scenario().override(seconds=9.0).seconds == 9.0
        assert_refused(lambda: scenario().override(commits=7, seconds=9.0), "Exactly one of")


test_what_does_not_fit_is_refused = refusals(
    (
        {"commits_per_worker": None},
        "Exactly one of `commits`, `seconds` and `commits_per_worker` must be given; got nothing",
    ),
    ({"commits": 3}, "Exactly one of .*; got commits=3 and commits_per_worker=25"),
    ({"commits_per_worker": 0}, "`commits_per_worker` must be an integer of at least 1; got 0"),
    ({"commits_per_worker": None, "seconds": float("nan")}, "`seconds` must be finite and positive; got nan"),
    ({"seed": 2**31}, "`seed` must be at most 2147483647"),
    ({"cluster": 4}, r"`cluster` must be an asyncsim.Cluster; got 4"),
    ({"rule": asim.rules.Downpour(0.1), "record": ("pi_mean",)}, "`record` names 'pi_mean', which 'downpour' .* has"),
    ({"record": ("pi_medain",)}, "`record` must be one of .* Did you mean 'pi_median'"),
    ({"record": ("test_accuracy",)}, "`record` names 'test_accuracy', which 'gem' .* cannot report"),
    ({"record": {"height": lambda commit: commit.central["y"]}}, "`height` of `record` failed .*KeyError"),
    call=lambda changes: scenario(**changes),
)

test_an_invalid_change_is_named = refusals(
    ({"wokers": 3}, r"`wokers` is not a field of this scenario. Did you mean `workers`\?"),
    ({"rule": "gme"}, r"`rule` must be one of .*; got 'gme'. Did you mean 'gem'\?"),
    ({"variant": "scirpt"}, r"`variant` must be one of .* Did you mean 'script'\?"),
    ({"rule": "downpour", "kappa": 2.0}, "`kappa` is not a field of rule 'downpour', only of gem"),
    ({"value": 2.0}, "`value` is not a field of compute 'gamma', only of constant; 'gamma' has `mean`, `cv`"),
    ({"cv": 0.0}, "`cv` must be finite and positive; got 0.0"),
    ({"workers": 0}, "`workers` must be an integer of at least 1; got 0"),
    ({"workload": "mlp"}, "`workload` 'mlp' needs a data set"),
    call=lambda changes: scenario().override(**changes),
)


def height(commit: asim.CommitView) -> Any:
    return commit.central["x"][0]


class TestRecord:
    def test_default_is_what_the_rule_has(self) -> None:
        assert set(scenario().strides) == {"energy_central", "energy_proxy", "pi_mean", "pi_median"}
        assert "test_loss" in scenario().reportable
        assert set(scenario(rule=asim.rules.Downpour(0.1)).strides) == {"energy_central"}
        assert set(scenario(rule=asim.rules.MomentumSGD(0.1)).strides) == {"energy_central", "energy_proxy"}

    def test_another_rule_keeps_what_it_can_report(self) -> None:
        recording = scenario(record={"energy_central": 3, "pi_mean": 2})
        assert recording.override(rule="downpour").strides == {"energy_central": 3}
        assert recording.override(record=()).strides == {}
        alone = scenario(record="compliance")  # which needs no list
        assert alone.strides == alone.override(kappa=2.0).strides == {"compliance": 1}

    def test_functions_of_the_user_are_recorded(self) -> None:
        own = scenario(record={"height": (height, 5), "central": 10})
        assert own.strides == {"height": 5, "central": 10}
        assert own.recorded == {"height": (height, 5), "central": 10}
        assert own == scenario(record={"central": 10, "height": (height, 5)})
        assert own != scenario(record={"height": (lambda commit: 2 * height(commit), 5), "central": 10})
        assert own.override(rule="downpour").recorded == own.recorded
        assert own.override(record={"height": 3, "pi_mean": None}).recorded == {"height": (height, 3), "pi_mean": 1}


class TestOverride:
    @pytest.mark.parametrize("law", built_in_classes("delays"))
    def test_another_law_keeps_mean_and_spread(self, law: str) -> None:
        compute = scenario().override(compute=law).cluster.compute
        assert isinstance(compute, built_in_classes("delays")[law])  # type: ignore[arg-type]
        assert compute.mean == pytest.approx(2.0)
        if law not in ("constant", "exponential"):
            assert compute.variance == pytest.approx(0.36)

    def test_a_wide_law_becomes_uniform_from_zero(self) -> None:
        assert asim.delays.Uniform.like(1.5, 2.25) == {"low": 0.0, "high": 3.0}

    def test_a_spread_that_the_present_law_lacks_must_be_given(self) -> None:
        constant = scenario().override(compute="constant")
        assert_refused(lambda: constant.override(compute="gamma"), "`cv` must be given as well with `compute` 'gamma'")
        assert constant.override(compute="gamma", cv=0.5).cluster.compute == asim.delays.Gamma(2.0, 0.5)

    def test_a_value_that_means_nothing_to_another_rule_is_left_behind(self) -> None:
        signed = scenario().override(variant="signed", momentum=0.5)
        with pytest.warns(UserWarning, match="rule 'dana' does not accept the `variant` 'signed' of 'gem'") as caught:
            dana = signed.override(rule="dana")
        assert [one.filename for one in caught] == [__file__]
        assert dana.rule.variant == "zero"
        assert dana.rule.momentum == 0.5
        assert [field.value for field in signed.fields(rule="dana") if field.name == "variant"] == ["zero"]
        assert signed.override(rule="dana", variant="slim").rule.variant == "slim"
        with pytest.raises(ValueError, match=r"`variant` must be one of 'zero'.*got 'paper'"):
            signed.override(rule="dana", variant="paper")

    @pytest.mark.filterwarnings("ignore:rule .* does not accept:UserWarning")
    def test_from_any_rule_to_any_other(self) -> None:
        """What both have is kept, also where it is no default: three partners of each rule."""

        def required(rule: str) -> dict[str, Any]:
            takes = arguments(built_in_classes("rules")[rule]).values()
            return {p.name: 2 if text_kind_of(p.annotation) in WHOLE else 0.25 for p in takes if p.default is p.empty}

        def changed(one: asim.Scenario, rule: str) -> asim.Scenario:
            given = {f"rule.{name}": value for name, value in required(rule).items()}
            return one.override(rule=rule, **given)

        rules = [*built_in_classes("rules")]
        for place, first in enumerate(rules):
            one = changed(scenario().override(momentum=0.5), first)
            before = {field.name: field.value for field in components.fields(one.rule)}
            for second in (rules * 2)[place + 1 : place + 12 : 4]:
                after = {field.name: field.value for field in components.fields(changed(one, second).rule)}
                both = before.keys() & after.keys() - {"name", "variant", *required(second)}
                both -= {name for name in both if before[name] is None}  # which means something else to each rule
                assert {name: after[name] for name in both} == {name: before[name] for name in both}

    def test_workload_keeps_what_its_mini_batches_count(self) -> None:
        jobs = scenario(workload=asim.workloads.Softmax(_tiny_data(), batch_size=4, counts="jobs"))
        for changes in ({"batch_size": 2}, {"workload": "mlp", "hidden": [3]}, {"workers": 3}):
            assert jobs.override(**changes).workload.counts == "jobs"

    def test_workload_keeps_its_data(self) -> None:
        digits = scenario(workload=asim.workloads.Softmax(_tiny_data(), batch_size=4))
        mlp = digits.override(workload="mlp", hidden=[3])
        assert mlp.workload.hidden == (3,)
        assert mlp.workload.batch_size == 4
        assert mlp.workload.data is digits.workload.data
        assert_refused(lambda: digits.override(batch_size=9), r"`batch_size` must be at most .* 8; got 9")

    def test_another_number_of_workers_keeps_the_shares_of_the_classes(self) -> None:
        """To within one worker of each, in the same order; laws of latency as well as of compute times."""
        laws = [asim.delays.Constant(1.0)] * 3 + [asim.delays.Constant(3.0)]
        cluster = asim.Cluster(4, laws, network=asim.Network(latency=laws))
        for n in (1, 2, 7, 30, 40):
            many = scenario(cluster=cluster).override(workers=n).cluster
            assert len(many.compute) == n
            assert abs(many.compute.count(laws[3]) - n / 4) < 1
            assert many.compute == tuple(sorted(many.compute, key=lambda law: law.mean)) == many.network.latency

    def test_laws_of_each_workers_own_jobs_fix_the_number(self) -> None:
        law = asim.delays.ByJob(lambda job: np.ones(len(job)))
        with pytest.raises(ValueError, match=r"`workers` cannot become 3 .* choose one law for all as well"):
            scenario(cluster=asim.Cluster(2, [law, law])).override(workers=3)

    def test_another_law_replaces_one_per_worker(self) -> None:
        uneven = scenario(cluster=asim.Cluster(2, [asim.delays.Constant(1.0), asim.delays.Constant(3.0)]))
        assert uneven.override(workers=3, compute="exponential").cluster.compute == asim.delays.Exponential(2.0)

    def test_every_field_can_be_set_to_its_own_text(self) -> None:
        for field in scenario().fields():
            if field.value is not None:
                assert scenario().override(**{field.name: field.parse(field.show())}) == scenario()

    def test_every_field_is_set_by_its_name(self) -> None:
        names = {field.name for field in dataclasses.fields(asim.Scenario)}
        assert names == {"cluster", "rule", "workload", "labels", *STUDY_FIELDS}

    def test_settings_are_the_fields_that_differ_from_the_defaults(self) -> None:
        changed = scenario().override(kappa=2.0, seed=3, protocol="ssp", slack=2, latency=0.5)
        fields = [field for field in changed.fields() if field.group != "Workload" and field.name != "record"]
        assert describe_changes(fields) == (
            "workers 4, compute gamma, mean 2, cv 0.3, protocol ssp, slack 2, latency 0.5, rule gem, "
            "learning rate 0.05, kappa 2, commits per worker 25, seed 3"
        )

    def test_every_field_is_explained(self) -> None:
        assert all(field.help for field in (*scenario().fields(), *all_fields()))
        assert not any(field.help.startswith("As in") for field in all_fields())


def test_a_law_and_a_workload_of_the_script_have_fields() -> None:
    quadratic = asim.workloads.Quadratic([1.0])
    workload = asim.Workload(init=quadratic.init, loss=quadratic.loss, data=np.ones((20, 1)), batch_size=10)
    own = scenario(workload=workload, cluster=asim.Cluster(2, Own(1.0)), record=())
    changed = own.override(batch_size=3, rate=0.5)
    assert changed.workload.batch_size == 3
    assert changed.cluster.compute == Own(0.5)


class TestDigest:
    def test_the_wording_does_not_count(self) -> None:
        timed = {"commits_per_worker": None, "seconds": 30.0}
        assert scenario(**timed, cluster=asim.Cluster(4, asim.delays.Gamma(2.0, 1.0))) == scenario(
            **timed | {"seconds": 30}, cluster=asim.Cluster(4, asim.delays.Gamma(mean=2, cv=1))
        )
        assert scenario() == scenario(commits_per_worker=None, commits=100)
        assert hash(scenario()) == hash(scenario(commits_per_worker=None, commits=100))
        assert scenario() == scenario().override(learning_rate=0.05)

    def test_every_change_counts(self) -> None:
        changes = {"workers": 5, "cv": 0.4, "kappa": 2.0, "noise": 0.1, "commits": 99, "seed": 1, "record": ()}
        digests = {scenario().override(**{name: value}).digest for name, value in changes.items()}
        assert len(digests | {scenario().digest}) == len(changes) + 1


def _tiny_data() -> asim.datasets.Dataset:
    inputs = np.linspace(-1.0, 1.0, 24).reshape(8, 3)
    labels = np.array([0, 1] * 4)
    return asim.datasets.Dataset("tiny", inputs, labels, inputs[:4], labels[:4], classes=2)
