"""The replaceable parts of a scenario (compute law, rule, workload): taken apart, overridden, rebuilt."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from asyncsim import checks, delays, rules, workloads
from asyncsim.rules import Rule
from asyncsim.scenario.fields import Field, arguments, fields_of, kind_of
from asyncsim.workloads import Workload

LAWS: dict[str, Callable[..., delays.Delay]] = {
    "constant": delays.Constant,
    "uniform": delays.Uniform,
    "exponential": delays.Exponential,
    "gamma": delays.Gamma,
    "lognormal": delays.LogNormal,
    "shifted_exponential": delays.ShiftedExponential,
    "half_normal": delays.HalfNormal,
    "weibull": delays.Weibull,
    "pareto": delays.Pareto,
    # Erlang's cannot keep a spread, its shape being whole: `gamma` with cv = 1 / sqrt(shape) is the same law.
}
HELP = {
    "compute": "Law of a worker's time from reading to committing; another one keeps the mean",
    "protocol": "Who may read when, and what makes a step; another one keeps the arguments that both have",
    "rule": "Update rule; another one keeps the arguments that both have",
    "workload": "What is learned; another one keeps the data set and the arguments that both have",
}
OWN = "own"  # name of a part that no constructor of the library made


@dataclass(frozen=True)
class Part:
    """A part of a scenario as a name and arguments.

    Attributes:
        field: Field that names it: "compute", "protocol", "rule" or "workload".
        group: Heading in the help of the command line.
        constructors: Name -> constructor.
        name: Name of the present one.
        values: Its present arguments.
        present: The object itself.
        own: `(**values) -> part` for a part that no constructor of the library made.
        data: The data set, which no field can set but every rebuilding hands on; or None.
    """

    field: str
    group: str
    constructors: Mapping[str, Callable[..., Any]]
    name: str
    values: Mapping[str, Any]
    present: Any
    own: Callable[..., Any] | None = dataclasses.field(default=None, repr=False)
    data: Any = None

    def fields(self, name: str | None = None) -> list[Field]:
        """The field that names the part, and the arguments of the present one.

        With the name of another constructor: its arguments, with the values that they would keep or their defaults.

        Raises:
            ValueError: If there is no constructor of this name; the nearest is suggested.
        """
        choice = Field(self.field, "text", f"{HELP[self.field]}.", self.group, self.name, tuple(self.constructors))
        if name is not None and name != self.name:
            values = self._carried(checks.one_of(self.field, name, self.constructors))
            choice = dataclasses.replace(choice, value=name)
        elif self.own is None:
            values = self.values
        else:
            help = f"Of the script's own {self.field}."
            return [choice, *(Field(k, kind_of(None, v), help, self.group, v) for k, v in self.values.items())]
        own = fields_of(self.constructors[choice.value], self.group, values)
        return [choice, *(dataclasses.replace(field, name=shown_name(self.field, field.name)) for field in own)]

    def rebuild(self, overrides: dict[str, Any]) -> Any:
        """The part with overrides; those it knows are taken out of the dictionary."""
        name = overrides.pop(self.field, self.name)
        same = name == self.name
        constructor, takes = self._constructor(name)
        shown = {key: shown_name(self.field, key) for key in takes}
        given = {key: overrides.pop(name) for key, name in shown.items() if name in overrides}
        if same and not given:
            return self.present
        kept = self.values if same else self._carried(name)
        values = {key: value for key, value in kept.items() if key in takes} | given
        lacking = [key for key, needed in takes.items() if needed and key not in values]
        if lacking:
            raise ValueError(f"`{lacking[0]}` must be given as well with `{self.field}` {name!r}.")
        return constructor(**values)

    def _constructor(self, name: str) -> tuple[Callable[..., Any], dict[str, bool]]:
        """What makes the part of this name, and the arguments it takes, with whether they must be given."""
        if name == self.name and self.own is not None:
            return self.own, dict.fromkeys(self.values, False)
        constructor = self.constructors[checks.one_of(self.field, name, self.constructors)]
        takes = {key: p.default is p.empty for key, p in arguments(constructor).items()}
        if "data" not in inspect.signature(constructor).parameters:
            return constructor, takes
        if self.data is None:
            raise ValueError(f"`{self.field}` {name!r} needs a data set, and the present one has none.")
        return (lambda **values: constructor(data=self.data, **values)), takes

    def _carried(self, name: str) -> Mapping[str, Any]:
        """Present arguments in the words of another constructor."""
        return law_arguments(self.present, name) if self.field == "compute" else self.values


def shown_name(part: str, argument: str) -> str:
    """The name under which an argument of a part can be set: its own, or "rule_limit" where a cluster has a "limit".

    Example:
        >>> shown_name("rule", "momentum"), shown_name("rule", "limit"), shown_name("protocol", "limit")
        ('momentum', 'rule_limit', 'limit')
    """
    from asyncsim.scenario.cluster_components import names_taken

    return f"{part}_{argument}" if part in ("rule", "workload") and argument in names_taken() else argument


def law_part(compute: Any) -> Part:
    """The law of compute times; a tuple of one law per worker has no fields of its own."""
    names = {law: name for name, law in LAWS.items()}
    name = names.get(type(compute), OWN)
    known = dataclasses.is_dataclass(compute)
    values = {f.name: getattr(compute, f.name) for f in dataclasses.fields(compute)} if known else {}
    values = {key: value for key, value in values.items() if isinstance(value, (int, float))}  # no lists, no laws

    def replace(**changed: Any) -> Any:
        return dataclasses.replace(compute, **changed)

    own = replace if name == OWN else None
    return Part("compute", "Cluster", LAWS, name, values, compute, own)


def law_arguments(law: Any, name: str) -> dict[str, float]:
    """Arguments with which another law keeps the mean, and the coefficient of variation where it has one.

    Example:
        >>> from asyncsim.delays import Constant, Gamma
        >>> law_arguments(Gamma(mean=2.0, cv=0.5), "lognormal"), law_arguments(Constant(2.0), "exponential")
        ({'mean': 2.0, 'cv': 0.5}, {'mean': 2.0})
        >>> {key: round(value, 3) for key, value in law_arguments(Gamma(mean=2.0, cv=0.3), "uniform").items()}
        {'low': 0.961, 'high': 3.039}
    """
    laws = law if isinstance(law, tuple) else (law,)
    mean = sum(one.mean for one in laws) / len(laws)
    variance = sum(getattr(one, "variance", math.inf) for one in laws) / len(laws)  # `VariableSpeed` has none
    half = min(math.sqrt(3 * variance), mean)  # a uniform law's; no law reaches below zero
    carried = {"value": mean, "mean": mean, "low": mean - half, "high": mean + half}
    if variance:
        tail = min(math.sqrt(variance), mean)
        excess = min(math.sqrt(variance / (math.pi / 2 - 1)), mean)  # a half-normal law's mean over its base
        carried |= {"shift": mean - tail, "tail": tail}
        carried |= {"base": mean - excess, "spread": excess * math.sqrt(math.pi / 2)}
    if 0 < variance < math.inf:
        carried["cv"] = math.sqrt(variance) / mean
        if name in ("weibull", "pareto"):
            return dataclasses.asdict(LAWS[name].from_cv(mean, carried["cv"]))  # type: ignore[attr-defined]
    return {key: carried[key] for key in arguments(LAWS[name]) if key in carried}


def rule_part(rule: Rule) -> Part:
    """The update rule; one of the script's own has its hyper-parameters as fields."""
    values = {key: value for key, value in rule.describe().items() if key != "name"}
    if rule.name in rules.CONSTRUCTORS:
        made = rules.CONSTRUCTORS[rule.name](**values)
        if jax.tree.structure(made) == jax.tree.structure(rule):
            return Part("rule", "Rule", rules.CONSTRUCTORS, rule.name, values, rule)

    def own(**changed: Any) -> Rule:
        return dataclasses.replace(rule, hyper={**rule.hyper, **changed})

    return Part("rule", "Rule", rules.CONSTRUCTORS, OWN, dict(rule.hyper), rule, own)


def workload_part(workload: Workload) -> Part:
    """What is learned; one of the script's own has its batch size as a field."""
    known = workloads.CONSTRUCTORS
    if workload.name in known:
        rest = (workload.name, workload.options, workload, None, workload.dataset)
        return Part("workload", "Workload", known, *rest)
    values = {} if workload.data is None else {"batch_size": workload.batch_size}

    def own(**changed: Any) -> Workload:
        return dataclasses.replace(workload, **changed)

    return Part("workload", "Workload", known, OWN, values, workload, own, workload.dataset)
