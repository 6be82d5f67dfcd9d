"""The parts of a component: arguments, choices by name, and components that have parts themselves.

`fields` lists them and `override` changes them, without a case for any kind. A field whose annotation is the base class
of a family, such as a rule or a protocol, is a choice by name, and so is a field whose metadata has a "choice", its
help. The arguments of the present choice are fields as well. Another choice keeps the arguments that both have.
"""

import collections.abc
import dataclasses
import inspect
import re
import sys
import types
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from asyncsim import _checks as checks
from asyncsim._component import BASES, FAMILIES, LIBRARY
from asyncsim._fields import Field, law_of
from asyncsim.delays import Constant, Delay, scaled
from asyncsim.delays._law import Law

SECTION = re.compile(r"^ *(Args|Attributes):\s*$")
ENTRY = re.compile(r"^( +)(\*{0,2}\w+(?:, \w+)*): (.*)$")
AS_IN = re.compile(r"As in (\w+)\. ?(.*)$")
BY_MEAN = "Changes the mean and keeps the coefficient of variation."
KEPT = "Another one keeps the arguments that both have."
CUSTOM = "custom"  # name of a choice that is an object of none of the listed classes
CONTEXT = ("data", "counts")  # arguments that no field sets, and that another choice takes over
UNSET = (*CONTEXT, "groups")  # arguments that no field sets
Shown = Callable[[str], str]  # argument -> the name under which it is set


@dataclass(frozen=True)
class Choice:
    """A field that chooses one of several constructors by name, and the arguments of these constructors."""

    name: str  # of the field
    options: Mapping[str, Callable[..., Any]]  # name -> constructor
    help: str  # the meaning of the choice, and the arguments that another choice keeps
    group: str = ""  # heading in the help of the command line
    default: str | None = None  # name of the choice in a script that does not choose, or None
    shown: Shown = str

    def field(self, name: str | None) -> Field:
        """The field, with the name of the present constructor as its value."""
        return Field(self.name, "text", self.help, self.group, name, tuple(self.options), self.default)

    def constructor(self, name: str) -> Callable[..., Any]:
        """The constructor of this name."""
        return self.options[checks.one_of(self.name, name, self.options)]

    def arguments(self, name: str, values: Mapping[str, Any] | None = None) -> list[Field]:
        """The fields of a constructor's arguments, with these values or else their defaults."""
        fields = fields_of(self.options[name], self.group, values)
        return [replace(field, name=self.shown(field.name)) for field in fields]

    def owners(self, shown: str) -> list[str]:
        """Names of the constructors that have an argument which is set under this name."""
        return [name for name, make in self.options.items() if shown in map(self.shown, arguments(make))]

    def every(self) -> list[Field]:
        """The field, and all arguments of its constructors without values, with the names of those that have them."""
        found: dict[str, list[tuple[str, Field]]] = {}
        for owner in self.options:
            for field in self.arguments(owner, {}):
                found.setdefault(field.name, []).append((owner, field))
        fields = [self.field(None)]
        for name, owned in found.items():
            most_common = Counter(field.help for _, field in owned).most_common(1)[0][0]
            of_all = len(owned) == sum(1 for make in self.options.values() if arguments(make))
            help = most_common if of_all else f"{most_common} ({', '.join(owner for owner, _ in owned)})"
            fields.append(Field(name, owned[0][1].kind, help, self.group))
        return fields


@dataclass(frozen=True)
class Argument:
    """A part that is set as a whole, or a law of delays, which is set by its mean."""

    field: Field
    present: Any
    choices: tuple[()] = ()  # that it contains

    def fields(self, chosen: Mapping[str, str]) -> list[Field]:
        """The field."""
        del chosen  # It has none.
        return [self.field]

    def rebuild(self, changes: dict[str, Any]) -> Any:
        """The value, after the change that is taken out of the dictionary."""
        name = self.field.name
        if name not in changes:
            return self.present
        value = changes.pop(name)
        return with_mean(name, self.present, value) if self.field.kind == "law" else value


@dataclass(frozen=True)
class Chosen:
    """A choice and its present object, taken apart into a name and arguments."""

    choice: Choice
    present: Any
    name: str  # of its constructor, or `CUSTOM`
    values: Mapping[str, Any]  # its arguments, those that are not given left out
    context: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # another data set, which no field sets

    @property
    def choices(self) -> "tuple[Chosen, ...]":
        """Itself."""
        return (self,)

    def fields(self, chosen: Mapping[str, str]) -> list[Field]:
        """The field, and its arguments or those of another name that is chosen."""
        name = chosen.get(self.choice.name, self.name)
        if name != self.name:
            self.choice.constructor(name)  # which refuses a name that there is not
        return [self.choice.field(name), *self.arguments(name)]

    def arguments(self, name: str | None = None) -> list[Field]:
        """The fields of its arguments, or of another constructor's with the values that it would keep."""
        if name not in (None, self.name):
            assert name is not None
            return self.choice.arguments(name, self._accepted(name, {}))
        if self.name in self.choice.options:
            return self.choice.arguments(self.name, self.values)
        own = f"Of the script's own {self.choice.name}."
        shown, group = self.choice.shown, self.choice.group
        return [
            replace(field, name=shown(field.name), help=field.help or own, group=group)
            for field in own_fields(self.present)
        ]

    def named_values(self) -> dict[str, Any]:
        """Name of a field -> value, of the choice and of the arguments that are given."""
        return {self.choice.name: self.name, **{self.choice.shown(key): value for key, value in self.values.items()}}

    def rebuild(self, changes: dict[str, Any]) -> Any:
        """The object after the changes that concern it, which are taken out of the dictionary."""
        name, options = changes.pop(self.choice.name, self.name), self.choice.options
        if options is FAMILIES["delays"] and (not isinstance(name, str) or ":" in name):  # no name of a law
            return with_mean(self.choice.name, self.present, name)
        if is_component(name) and all(isinstance(make, type) for make in options.values()):
            return name
        own = name == self.name and name not in options
        names = [field.name for field in own_fields(self.present)] if own else arguments(self.choice.constructor(name))
        takes = {key: self.choice.shown(key) for key in names}
        given = {key: changes.pop(shown) for key, shown in takes.items() if shown in changes}
        if name == self.name and not given and not self.context:
            return self.present
        if name not in options:
            return override(self.present, **given)
        make = options[name]
        self._context(name)  # which refuses a workload whose data set is lacking
        kept = self.values if name == self.name else self._kept(name, given)
        if given.keys() & set(getattr(make, "either", ())):  # of which one replaces the others
            kept = {key: value for key, value in kept.items() if key not in make.either}  # type: ignore[attr-defined]
        values = {**kept, **given}
        for key, parameter in arguments(make).items():
            if parameter.default is parameter.empty and key not in values:
                raise ValueError(f"`{takes[key]}` must be given as well with `{self.choice.name}` {name!r}.")
        return self._made(name, values)

    def _made(self, name: str, values: Mapping[str, Any]) -> Any:
        """The object of a name and arguments, with the data set of the present one."""
        return self.choice.options[name](**self._context(name), **values)

    def _context(self, name: str) -> dict[str, Any]:
        """Arguments that no field sets, of the present object or the context, for the choice of this name."""
        has = inspect.signature(self.choice.options[name]).parameters
        kept = UNSET if name == self.name else CONTEXT
        found = {key: self.context.get(key, getattr(self.present, key, None)) for key in kept if key in has}
        if "data" in has and found["data"] is None:
            raise ValueError(f"`{self.choice.name}` {name!r} needs a data set, and the present one has none.")
        return {key: value for key, value in found.items() if value is not None}

    def _kept(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Present arguments that another constructor accepts, with a warning that names the others."""
        kept = self._accepted(name, given)
        for key, value in self._carried(name).items():
            if key not in kept and key not in given:
                warn(
                    f"{self.choice.name} {name!r} does not accept the `{self.choice.shown(key)}` {value!r} of "
                    f"{self.name!r}; its default is used."
                )
        return kept

    def _accepted(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Present arguments that another constructor accepts in addition to those that are given."""

        def accepts(values: Mapping[str, Any]) -> bool:
            try:
                self._made(name, {**values, **given})
            except ValueError:
                return False
            except TypeError:  # a required argument is lacking, and nobody can tell
                return True
            return True

        carried, takes = self._carried(name), arguments(self.choice.constructor(name))
        kept = {key: value for key, value in carried.items() if takes[key].default is inspect.Parameter.empty}
        if accepts(carried) or not accepts(kept):
            return carried
        for key, value in carried.items():
            if key not in given and accepts({**kept, key: value}):
                kept[key] = value
        return kept

    def _carried(self, name: str) -> dict[str, Any]:
        """Present arguments that another constructor has too, in its words."""
        make = self.choice.constructor(name)
        in_place_of = getattr(make, "in_place_of", None)
        values = self.values if in_place_of is None else in_place_of(self.present)
        return {key: value for key, value in values.items() if key in arguments(make)}


@dataclass(frozen=True)
class Inner:
    """A part that has parts itself."""

    present: Any
    shown: Shown = str
    group: str = ""

    @property
    def choices(self) -> tuple[Chosen, ...]:
        """The choices that it contains."""
        return tuple(choice for part in parts_of(self.present, self.shown).values() for choice in part.choices)

    def fields(self, chosen: Mapping[str, str]) -> list[Field]:
        """Those of its parts."""
        found = fields_of_parts(parts_of(self.present, self.shown).values(), chosen)
        return [replace(field, group=self.group) for field in found] if self.group else found

    def rebuild(self, changes: dict[str, Any]) -> Any:
        """The component after the changes that concern it, which are taken out of the dictionary."""
        present = self.present
        rebuilt = {name: part.rebuild(changes) for name, part in parts_of(present, self.shown).items()}
        given = {name: value for name, value in rebuilt.items() if value is not getattr(present, name)}
        if not given:
            return present  # itself, so that its cached values are not computed again
        return replace(present, **(present.fitted(given) if hasattr(present, "fitted") else given))


Part = Argument | Chosen | Inner


def fields_of_parts(parts: Iterable[Part], chosen: Mapping[str, str]) -> list[Field]:
    """The fields of several parts, as each of them lists its own."""
    return [field for part in parts for field in part.fields(chosen)]


def parts_of(component: Any, shown: Shown = str) -> dict[str, Part]:
    """Argument -> part, of a component: first the parts that one name sets, then the components that it contains."""
    kind = type(component)
    if not dataclasses.is_dataclass(kind):
        return {}
    values = {name: getattr(component, name) for name in arguments(kind)}
    choices = choices_of(kind, shown)
    plain = {field.name: field for field in fields_of(kind, "", values)}
    parts: dict[str, Part] = {}
    inner: dict[str, Part] = {}
    for name, value in values.items():
        if name in choices:
            parts[name] = chosen(choices[name], value)
        elif is_component(value):
            inner[name] = Inner(value, shown)
        elif name in plain:
            parts[name] = Argument(replace(plain[name], name=shown(name)), value)
    return parts | inner


def fields(component: Any, **chosen: str) -> tuple[Field, ...]:
    """The fields of a component and of the components that it contains, with their present values.

    A law of delays is shown by its mean. A class has the fields of its arguments, with their defaults. A component with
    a method `fields` answers itself.

    Args:
        component: A component, or a class of components.
        **chosen: Names of other choices, as in `protocol="k_async"`, whose fields are wanted.

    Example:
        >>> import asyncsim as asim
        >>> network = asim.Network(latency=asim.delays.Gamma(mean=0.1, cv=0.5))
        >>> [(field.name, field.kind, field.value) for field in fields(network)][:2]
        [('latency', 'law', 0.1), ('bandwidth', 'number', inf)]
        >>> [(field.name, field.value) for field in fields(asim.rules.WithProxy(asim.rules.Downpour(0.1)))][:3]
        [('rule', 'downpour'), ('learning_rate', 0.1), ('window', 1)]
    """
    if isinstance(component, type):
        return tuple(fields_of(component, ""))
    if hasattr(component, "fields"):
        return tuple(component.fields(**chosen))
    return tuple(Inner(component).fields(chosen))


def override(component: Any, **changes: Any) -> Any:
    """The component with other arguments, where a name that is not its own belongs to a component that it contains.

    A rule, a protocol or a compute law is given by its name, and keeps the arguments that both have, or as an object.
    Any other law of delays is given as a law, as a text such as "gamma:mean=1:cv=0.3", or as a number, its new mean. A
    component with a method `override` answers itself.

    Args:
        component: A component, or another frozen dataclass.
        **changes: Name of an argument -> its new value.

    Raises:
        ValueError: If nothing has an argument of a name (the nearest is named), or a value does not fit.

    Example:
        >>> import asyncsim as asim
        >>> override(asim.rules.WithProxy(asim.rules.Downpour(0.1)), learning_rate=0.2, proxy_momentum=0.5).numbers
        {'learning_rate': 0.2, 'proxy_momentum': 0.5}
        >>> override(asim.Server(service=asim.delays.Gamma(0.1, 0.5)), service=0.2).service
        Gamma(mean=0.2, cv=0.5)
        >>> override(asim.Cluster(workers=4, compute=asim.delays.Gamma(1.0, 0.3)), compute="lognormal").compute
        LogNormal(mean=1.0, cv=0.3)
    """
    if hasattr(component, "override"):
        return component.override(**changes)
    rest, whole = dict(changes), Inner(component)
    changed = whole.rebuild(rest)
    for name in rest:
        known = [field.name for field in whole.fields({})]
        refuse_unknown(name, Inner(changed).choices, known, f"an argument of {type(component).__name__}")
    return changed


def every_field(kind: type) -> list[Field]:
    """All fields that components of a class can have, without values: those of every choice."""
    choices, annotations, plain = choices_of(kind), annotations_of(kind), {f.name: f for f in fields_of(kind, "", {})}
    own: list[Field] = []
    inner: list[Field] = []
    for name in arguments(kind):
        classes = [one for one in options_of(annotations[name]) if isinstance(one, type) and _holds_components(one)]
        if name in choices:
            own += choices[name].every()
        elif classes and not is_law(annotations[name]):
            inner += every_field(classes[0])
        elif name in plain:
            own.append(plain[name])
    return own + inner


@lru_cache(maxsize=256)
def arguments(constructor: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Arguments that a field can set: all except the data."""
    parameters = inspect.signature(constructor).parameters
    return types.MappingProxyType({name: parameter for name, parameter in parameters.items() if name not in UNSET})


def fields_of(constructor: Callable[..., Any], group: str, values: Mapping[str, Any] | None = None) -> list[Field]:
    """One field per argument of a constructor or of a class, whose arguments that no text stands for are left out."""
    found = []
    for field, annotation, default in _templates(constructor):
        value = default if values is None else values.get(field.name, default)
        if field.kind == "law":
            found.append(replace(field, group=group, value=field.default if value is default else _mean(value)))
        elif not isinstance(constructor, type) or _is_plain(value):
            kind = field.kind if annotation is inspect.Parameter.empty else kind_of(annotation, value)
            found.append(replace(field, kind=kind, group=group, value=value))
    return found


@cache
def _templates(constructor: Callable[..., Any]) -> tuple[tuple[Field, Any, Any], ...]:
    """Field without a value, annotation and default, of each argument that a text may stand for."""
    helps = described_arguments(constructor)
    annotations, found = annotations_of(constructor), []
    for name, parameter in arguments(constructor).items():
        default = shown = None if parameter.default is parameter.empty else parameter.default
        annotation, kind, help = annotations.get(name, parameter.annotation), "", helps.get(name, "")
        if is_law(annotation):
            shown, kind, help = _mean(default), "law", f"{help} {BY_MEAN}".strip()
        elif annotation is parameter.empty:
            kind = kind_of(type(default), default)
        elif isinstance(constructor, type) and (_holds_components(annotation) or _takes_functions(annotation)):
            continue
        found.append((Field(name, kind, help, default=shown), annotation, default))
    return tuple(found)


@cache
def described_arguments(constructor: Callable[..., Any]) -> Mapping[str, str]:
    """Argument -> its description in `Args:` or `Attributes:`; "As in X." stands for that of X in its package."""
    lines = (inspect.getdoc(constructor) or "").splitlines()
    starts = [number for number, line in enumerate(lines) if SECTION.match(line)]
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines[starts[0] + 1 :] if starts else []:
        entry = ENTRY.match(line)
        if line.strip() and not line.startswith(" "):
            break
        if entry and len(entry[1]) == 4:
            names = entry[2].split(", ")
            found |= {name: [entry[3]] for name in names}
        else:
            for name in names:
                found[name].append(line.strip())
    helps = {name: " ".join(part for part in text if part).replace("`", "") for name, text in found.items()}
    for name, help in helps.items():
        if reference := AS_IN.match(help):
            module = constructor.__module__
            places = (sys.modules.get(place) for place in (module, module.rpartition(".")[0]))
            other = next(filter(None, (getattr(place, reference[1], None) for place in places)), None)
            helps[name] = f"{described_arguments(other).get(name, '') if other else ''} {reference[2]}".strip()
    return types.MappingProxyType(helps)


def signed(make: Callable[..., Any], sources: Mapping[Callable[..., Any], Sequence[str]]) -> Callable[..., Any]:
    """A constructor whose arguments, with their help, are some of those of others."""
    signatures = {source: inspect.signature(source).parameters for source in sources}
    parameters = [signatures[source][name] for source, names in sources.items() for name in names]
    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    helps = [(name, described_arguments(source).get(name, "")) for source, names in sources.items() for name in names]
    lines = [f"    {name}: {help}" for name, help in helps]
    make.__doc__ = "\n".join(["Arguments of others.", "", "Args:", *lines])
    return make


def kind_of(annotation: Any, value: Any = None) -> str:
    """The kind of text that sets an argument, from its annotation or else from its present value."""
    kinds = {bool: "switch", int: "integer", float: "number", str: "text"}
    for option in options_of(annotation):
        origin, items = typing.get_origin(option), typing.get_args(option)
        if origin is typing.Annotated:
            return kind_of(items[0], value)
        if origin is typing.Literal:
            return "text"
        if option in kinds and not isinstance(value, (list, tuple)):
            return kinds[option]
        if isinstance(origin, type) and issubclass(origin, collections.abc.Sequence):
            return "integers" if items and items[0] is int else "numbers"
    if isinstance(value, (list, tuple)):
        return "integers" if value and all(isinstance(item, int) for item in value) else "numbers"
    return "text" if isinstance(value, str) else "number"


def options_of(annotation: Any) -> list[Any]:
    """The members of a union without None, or the annotation itself."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return [one for one in (typing.get_args(annotation) if union else (annotation,)) if one is not type(None)]


@cache
def annotations_of(constructor: Any) -> dict[str, Any]:
    """Name -> annotation, also of a module whose annotations are text, unless only a type checker knows a name."""
    try:
        return typing.get_type_hints(constructor, include_extras=True)
    except (NameError, TypeError):
        return {}


def is_law(annotation: Any) -> bool:
    """Whether a field holds a law of delays, or one for each worker, stage or slot."""
    return annotation is Delay or any(map(is_law, typing.get_args(annotation)))


def _holds_components(annotation: Any) -> bool:
    """Whether a field holds a component, or several: they have fields themselves, or none."""
    return dataclasses.is_dataclass(annotation) or any(map(_holds_components, typing.get_args(annotation)))


def _takes_functions(annotation: Any) -> bool:
    """Whether an argument takes a function and nothing else, None apart."""
    kinds = [typing.get_args(one)[0] if hasattr(one, "__metadata__") else one for one in options_of(annotation)]
    return bool(kinds) and all(typing.get_origin(one) is collections.abc.Callable for one in kinds)


def _is_plain(value: Any) -> bool:
    """Whether a text can stand for a value."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value[:1]))
    return value is None or isinstance(value, (bool, int, float, str, np.ndarray, np.generic))


def _mean(law: Any) -> float | None:
    """Mean of a law, or of one for each worker, or None without one."""
    laws = law if isinstance(law, tuple | list) else (law,)
    means = [one.mean for one in laws if hasattr(one, "mean")]
    return sum(means) / len(means) if means else None


def with_mean(name: str, law: Any, mean: Any) -> Any:
    """The law with another mean, or a constant law if there is none or it is always 0."""
    if isinstance(mean, str):
        return law_of(mean)
    if mean is None or isinstance(mean, Delay) or (isinstance(mean, list | tuple) and isinstance(mean[0], Delay)):
        return mean
    mean, present = checks.require_not_negative(name, mean, remedy="Give a mean in seconds."), _mean(law)
    if not present or not mean:
        return Constant(mean)
    factor = mean / present
    return tuple(scaled(one, factor) for one in law) if isinstance(law, tuple) else scaled(law, factor)


def every_name(kind: type) -> set[str]:
    """Names of all fields that components of a class can have."""
    return {field.name for field in every_field(kind)}


def refuse_unknown(name: str, choices: Iterable[Chosen], known: Iterable[str], what: str) -> None:
    """Say why a name cannot be changed: it belongs to another rule, law or workload, or is misspelt."""
    for one in choices:
        if owners := one.choice.owners(name):
            has = [field.name for field in one.arguments()]
            listed = ", ".join(f"`{field}`" for field in has) or "no fields"
            raise ValueError(
                f"`{name}` is not a field of {one.choice.name} {one.name!r}, only of {', '.join(owners)}; "
                f"{one.name!r} has {listed}.{checks.did_you_mean(name, has)}"
            )
    raise ValueError(f"`{name}` is not {what}.{checks.did_you_mean(name, known)}")


def chosen(choice: Choice, present: Any) -> Chosen:
    """A choice with its object, taken apart."""
    kind = type(present)
    name = next((name for name, make in choice.options.items() if make is kind), CUSTOM)
    if name == CUSTOM:
        return Chosen(choice, present, name, {field.name: field.value for field in own_fields(present)})
    values = {key: (getattr(present, key), parameter.default) for key, parameter in arguments(kind).items()}
    given = {key: _listed(value) for key, (value, default) in values.items() if not value is default is None}
    return Chosen(choice, present, name, given)


def own_fields(present: Any) -> list[Field]:
    """The fields of an object of no class that is listed: its numbers, switches and texts."""
    found = fields(present) if is_component(present, laws=True) else ()
    annotations = annotations_of(type(present))
    return [
        field
        for field in found
        if field.kind != "law" and not field.choices and _is_single(field, annotations.get(field.name))
    ]


@cache
def choices_of(kind: type, shown: Shown = str) -> dict[str, Choice]:
    """Name of a field -> choice, of the fields of a class that hold an object of a family."""
    found, helps = {}, described_arguments(kind)
    own = arguments(kind)
    for field in dataclasses.fields(kind):
        options = options_of(annotations_of(kind).get(field.name))
        family = next((BASES[one] for one in options if isinstance(one, type) and one in BASES), None)
        help = field.metadata.get("choice", "")
        if field.name in own and family is not None and (help or family != "delays"):
            default = None
            if field.default_factory is not dataclasses.MISSING:
                default = getattr(field.default_factory, "name", None)
            inner = prefixed(field.name, frozenset(own), shown)
            help = help or f"{helps.get(field.name, '')} {KEPT}".strip()
            found[field.name] = Choice(shown(field.name), FAMILIES[family], help, default=default, shown=inner)
    return found


def warn(message: str) -> None:
    """Warn where the library was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(f"{LIBRARY}."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def is_component(value: Any, laws: bool = False) -> bool:
    """Whether a value has parts. (A law of delays is one part.)"""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return False
    return laws or not isinstance(value, (Law, Delay))  # `Law` first: whether an object is a `Delay` takes its moments


@cache
def prefixed(prefix: str, taken: frozenset[str], shown: Shown = str) -> Shown:
    """The name under which an argument is set, with a prefix where others have its name."""
    return lambda name: shown(f"{prefix}_{name}" if name in taken else name)


def _is_single(field: Field, annotation: Any) -> bool:
    """Whether a field has, or could have, a number (also one per seed), a switch or a text."""
    if field.value is None:
        return annotation is None or any(
            one in (bool, int, float, str) or typing.get_origin(one) in (typing.Annotated, typing.Literal)
            for one in options_of(annotation)
        )
    if isinstance(field.value, np.ndarray):
        return field.kind in ("number", "integer")
    return isinstance(field.value, (bool, int, float, str))


def _listed(value: Any) -> Any:
    """An array or a tuple as a list."""
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value
