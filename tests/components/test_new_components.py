"""A new law, protocol, compressor, rule, workload or kind of cluster is one class: all else follows from the class."""

import dataclasses
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.cluster.protocols import NamedProtocol, Terms
from asyncsim.components import _families as families
from asyncsim.components._checked import Checked
from asyncsim.compressors._compressor import Compressor, bytes_of
from asyncsim.delays._law import Fitted
from asyncsim.scenario._scenario import all_fields
from tests.cluster import test_every_cluster as every_cluster
from tests.compressors import test_compressors as every_compressor
from tests.delays import test_every_law as every_law
from tests.delays.laws import Case
from tests.problems import RULES, compare, gamma_trace
from tests.rules import test_conformance as every_rule
from tests.scenario.test_rebuild import through_json

pytestmark = pytest.mark.quick


@dataclasses.dataclass(frozen=True)
class TwoPoints(asim.delays.Law):
    """Either of two delays, with equal probability.

    Args:
        mean: Mean of the two, in seconds.
        apart: Half their distance, in seconds.
    """

    mean: float
    apart: float = 0.5

    @property
    def variance(self) -> float:
        return self.apart**2

    def cdf(self, t: Any) -> Any:
        t = np.asarray(t)
        return 0.5 * (t >= self.mean - self.apart) + 0.5 * (t >= self.mean + self.apart)

    def sample(self, generator: np.random.Generator, size: int) -> Any:
        return self.mean + self.apart * generator.choice([-1.0, 1.0], size)


@dataclasses.dataclass(frozen=True)
class EveryOther(NamedProtocol):
    """Gradients make a step in groups.

    Args:
        group: Gradients in a step.
    """

    group: int = 2

    def terms(self, workers: int) -> Terms:
        del workers
        return Terms(collect=self.group)


class Rounded(Compressor):
    """Numbers are rounded to multiples.

    Args:
        unit: Of which multiples are sent.
    """

    unit: float = 0.25

    def compress(self, key: Any, update: Any, state: Any) -> tuple[Any, Any]:
        del key
        return jax.tree.map(lambda leaf: jnp.round(leaf / self.unit) * self.unit, update), state

    def bytes(self, params: Any) -> int:
        return bytes_of(params) // 4

    def delta(self, params: Any) -> float:
        del params
        return 0.5


class SlowingSigns(asim.Rule):
    """Sign-SGD with a step size that decays as 1/sqrt(k).

    Args:
        learning_rate: Step size.
        halving: Commits after which the step is smaller by a factor of about sqrt(2).
    """

    learning_rate: float
    halving: float = 1.0

    name = "slowing_signs"
    publication = "hermans2018gem"
    purpose = "tests"

    def start(self, params: Any) -> Any:
        del params
        return jnp.zeros(())

    def send(self, gradient: Any, count: Any, view: Any) -> asim.rules.Sent:
        del view
        step = self.learning_rate / jnp.sqrt(count / self.halving + 1)
        return asim.rules.Sent(message=jax.tree.map(lambda g: -step * jnp.sign(g), gradient), state=count + 1)


class Bowl(asim.Workload):
    """A bowl.

    Args:
        depth: Its curvature.
    """

    depth: float = 1.0

    def init(self, key: Any) -> Any:
        del key
        return jnp.ones(3)

    def loss(self, params: Any, batch: Any, key: Any) -> Any:
        del batch, key
        return 0.5 * self.depth * jnp.sum(params**2)


@dataclasses.dataclass(frozen=True)
class InTurn:
    """Workers that commit in turn, as one token goes round.

    Args:
        workers: Number of workers.
        hold: Law of the time for which a worker has the token, in seconds.
    """

    workers: int
    hold: asim.delays.Delay

    def simulate(self, *, commits: int | None, seconds: float | None, seed: int) -> asim.Trace:
        count = commits or int((seconds or 0.0) / self.hold.mean)
        times = np.cumsum(self.hold.sample(np.random.default_rng(seed), count))
        return asim.Trace.from_commits(np.arange(count) % self.workers, commit_time=times, workers=self.workers)


NEW = {"delays": TwoPoints, "protocols": EveryOther, "compressors": Rounded, "rules": SlowingSigns, "workloads": Bowl}
FLAGS = {"compute" if family == "delays" else family.removesuffix("s"): cls.name for family, cls in NEW.items()}
ARGUMENTS = ("apart", "group", "unit", "halving", "depth")


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """The classes are registered for these tests only: others go over all that there are."""
    for family, cls in NEW.items():
        families.FAMILIES[family][cls.name] = cls
    yield
    for family, cls in NEW.items():
        del families.FAMILIES[family][cls.name]


for _family, _cls in NEW.items():
    del families.FAMILIES[_family][_cls.name]


def scenario() -> asim.Scenario:
    cluster = asim.Cluster(4, asim.delays.Gamma(2.0, 0.25))
    return asim.Scenario(cluster, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=12, record=())


def test_they_have_flags_with_help() -> None:
    fields = {field.name: field for field in all_fields()}
    for flag, name in FLAGS.items():
        assert name in fields[flag].choices
    for argument in ARGUMENTS:
        assert fields[argument].help
    assert fields["apart"].help == "Half their distance, in seconds. (two_points)"


def test_they_are_chosen_by_name_and_keep_what_both_have() -> None:
    chosen = scenario().override(**FLAGS)
    assert chosen.cluster.compute == TwoPoints(2.0)
    assert chosen.cluster.protocol == EveryOther()
    assert chosen.rule == asim.rules.compressed(SlowingSigns(0.1), Rounded())
    assert chosen.workload == Bowl()


def test_they_have_grids_and_each_value_its_digest() -> None:
    base = scenario().override(**FLAGS)
    grid = asim.grid(base, depth=[1.0, 2.0], halving=[1.0, 3.0], apart=[0.1, 0.2], unit=[0.5, 0.25], group=[1, 2])
    assert len({one.digest for one in grid}) == len(grid) == 32


def test_new_components_are_rebuilt_from_descriptions() -> None:
    made = scenario().override(**FLAGS, apart=0.25, group=3, unit=0.01, halving=2.0, depth=2.0)
    again = through_json(made)
    assert again == made
    assert asim.run(again).summary["final_loss"] < 3.0  # that of the start


def test_the_command_line_lists_and_explains_them(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            asim.main(arguments=[*arguments])
        return " ".join(capsys.readouterr().out.split())

    assert "slowing_signs" in printed("rules")
    assert "rounded" in printed("rules")
    assert "Commits after which the step is smaller" in printed("rules", "slowing_signs")
    assert "--depth NUMBER" in printed("run", "--help-for", "bowl")


def test_they_are_in_the_catalogue_and_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """As classes of the library: a new one is added to the `__all__` of its package."""
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    catalogue, names = (importlib.import_module(f"tools.{name}") for name in ("catalogue", "names"))
    monkeypatch.setattr(SlowingSigns, "__module__", "asyncsim.rules._new")
    (entry,) = re.findall(r"\nslowing_signs\n---.*?\n\n\n?(?=\.\. _|$)", f"{catalogue.page()}\n", re.DOTALL)
    for word in (":Made for: tests", "``learning_rate`` (required), ``halving=1.0``", "Gradient Energy Matching"):
        assert word in entry
    packages = {**{cls: getattr(asim, family) for family, cls in NEW.items()}, InTurn: asim}
    for cls, package in packages.items():
        monkeypatch.setattr(package, "__all__", [*package.__all__, cls.__name__])
        monkeypatch.setattr(package, cls.__name__, cls, raising=False)
    listed = {name.path: names.summary(name.value) for name in names.public_names()}
    for cls, package in packages.items():
        assert listed[f"{names.public_path(package)}.{cls.__name__}"] == (cls.__doc__ or "").partition("\n")[0]


@pytest.mark.usefixtures("x64")
def test_they_pass_the_conformance_tests_of_their_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests that run over all components of a family, called with the new one."""
    case = Case(TwoPoints(1.0))
    every_law.test_mean(case)
    every_law.test_variance(case)
    cluster = asim.Cluster(4, asim.delays.Gamma(2.0, 0.25), protocol=EveryOther(3))
    every_cluster.test_every_trace_keeps_the_invariants.hypothesis.inner_test(cluster, 1)  # type: ignore[attr-defined]
    every_compressor.test_a_tree_is_one_vector(Rounded())
    every_compressor.test_zeros_stay_zeros_and_infinity_shows(Rounded())
    monkeypatch.setitem(RULES, SlowingSigns.name, (lambda: SlowingSigns(0.1), None))
    every_rule.test_it_solves_a_quadratic_in_one_program_that_equals_the_reference_loop(SlowingSigns.name, None)
    every_rule.test_its_cost_is_linear_in_the_parameters(SlowingSigns.name)
    every_rule.test_the_command_line_can_rebuild_it(SlowingSigns.name)
    compare(gamma_trace(commits=40), asim.rules.GEM(0.1), Bowl(2.0))
    asim.simulate(InTurn(3, asim.delays.Gamma(1.0, 0.5)), commits=30).check()


def test_a_kind_of_cluster_has_schedules_flags_and_a_digest() -> None:
    cluster = InTurn(3, asim.delays.Gamma(1.0, 0.5))
    base = dataclasses.replace(scenario(), cluster=cluster)
    assert {field.name: field.value for field in base.fields() if field.group == "Cluster"} == {
        "workers": 3,
        "hold": 1.0,
    }
    more = base.override(workers=4, hold=2.0)
    assert more.cluster == InTurn(4, asim.delays.Gamma(2.0, 0.5))
    assert len({base.digest, more.digest, base.override(hold=asim.delays.Constant(1.0)).digest}) == 3
    assert through_json(more) == more
    result = asim.run(more)
    assert result.trace.staleness.tolist() == [0, 1, 2, *[3] * 9]
    trace = asim.simulate(more.cluster, commits=12, seed=more.seed)
    np.testing.assert_array_equal(asim.replay(trace, more.rule, more.workload).loss, result.run.loss)


def test_what_is_no_cluster_is_refused() -> None:
    for wrong in (InTurn, scenario(), object()):
        with pytest.raises(ValueError, match="`cluster` must be an asyncsim"):
            asim.simulate(wrong, commits=3)  # type: ignore[arg-type]


def _named(base: Any, decorated: bool = False) -> Any:
    """Return a class with two annotated arguments, one of them with a default."""

    class OfUser(base):
        first: float
        second: int = 3

        mean = variance = 1.0
        cdf = sample = terms = adjacency = send = compress = bytes = of = loss = init = data = _load = (
            lambda self, *args: None
        )

    OfUser.__abstractmethods__ = frozenset()
    return dataclasses.dataclass(frozen=True)(OfUser) if decorated else OfUser


AUTOMATIC = (asim.Rule, asim.rules.Weight, asim.rules.StepSchedule, Compressor, asim.Workload, asim.datasets.Dataset)


class FittedLaw(asim.delays.Law, Fitted, named=False):
    """The base classes of a law that can be fitted."""


EXPLICIT = (asim.delays.Law, FittedLaw, NamedProtocol, asim.graphs.Graph, Checked)


@pytest.fixture
def unnamed() -> Iterator[None]:
    """Forget the classes of a test that have names."""
    before = {family: dict(classes) for family, classes in families.FAMILIES.items()}
    yield
    for family, classes in before.items():
        families.FAMILIES[family].clear()
        families.FAMILIES[family].update(classes)


@pytest.mark.usefixtures("unnamed")
class TestOneRegime:
    """No class of a user's has annotations that are silently no arguments."""

    @pytest.mark.parametrize("base", AUTOMATIC, ids=lambda base: base.__name__)
    def test_arguments_of_some_bases_follow_from_the_annotations(self, base: Any) -> None:
        kind = _named(base)
        assert [field.name for field in dataclasses.fields(kind)][-2:] == ["first", "second"]

    @pytest.mark.parametrize("base", EXPLICIT, ids=lambda base: base.__name__)
    def test_others_ask_for_the_decorator_that_is_missing(self, base: Any) -> None:
        with pytest.raises(TypeError, match=r"OfUser must be a dataclass.*Write `@dataclass\(frozen=True\)`"):
            _named(base)(1.0, second=2)
        value = _named(base, decorated=True)(1.0, second=2)
        assert (value.first, value.second) == (1.0, 2)

    @pytest.mark.parametrize("base", EXPLICIT, ids=lambda base: base.__name__)
    def test_a_class_below_a_decorated_one_needs_its_own_only_for_arguments_of_its_own(self, base: Any) -> None:
        decorated = _named(base, decorated=True)

        class Other(decorated):
            third: ClassVar[int] = 1

        class More(decorated):
            third: int = 1

        class Fewer(base):
            third = 2
            terms = adjacency = cdf = sample = lambda self, *args: None

        assert (Other(1.0).second, Fewer().third) == (3, 2)
        with pytest.raises(TypeError, match="More must be a dataclass"):
            More(1.0)

    @pytest.mark.parametrize("base", EXPLICIT, ids=lambda base: base.__name__)
    def test_a_class_with_a_constructor_of_its_own_is_none(self, base: Any) -> None:
        class Plain(base):
            rate: float

            def __init__(self, rate: float) -> None:
                self.rate = rate

            terms = adjacency = cdf = sample = lambda self, *args: None

        class Below(Plain):
            kind: str = "plain"

        assert (Plain(2.0).rate, Below(3.0).rate) == (2.0, 3.0)
