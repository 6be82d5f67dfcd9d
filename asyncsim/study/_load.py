"""Results loaded from a folder or its tag, as `asyncsim.run` returned them."""

import contextlib
import os
import runpy
import stat
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asyncsim._description import NotRebuilt
from asyncsim.scenario import Scenario
from asyncsim.scenario._rebuild import LANES, as_described, outside_lanes, rebuild
from asyncsim.store import _labels as labels
from asyncsim.store._labels import Origin
from asyncsim.store._listing import swept_in
from asyncsim.store._places import again, find_run
from asyncsim.study._compare import Comparison
from asyncsim.study._experiment import Experiment, Findings, read_numbers, summary_of
from asyncsim.study._run import Result, load_result
from asyncsim.trace import Trace

Study = Scenario | Comparison | Experiment
RUN_NAME = "__asyncsim__"  # not "__main__": a script that is also a program must not start itself
NAMES = ("experiment", "comparison", "scenario")  # the first that a script defines is run
EXAMPLE = "scenario = asim.Scenario(...)"


def study_of(path: str) -> Study:
    """The study that a script defines: its `experiment` or `comparison`, or else its `scenario`."""
    names = names_of(path)
    found = {name: study for name in NAMES if isinstance(study := names.get(name), Study)}
    if {"experiment", "comparison"} <= found.keys():
        raise ValueError(f"{path} defines both `experiment` and `comparison`. Give each a script of its own.")
    if not found:
        raise ValueError(f"{path} defines no `scenario`, `comparison` or `experiment`.{_remedy(names)}")
    return next(iter(found.values()))


def names_of(path: str) -> dict[str, object]:
    """The names that a script defines. It is run under another name than "__main__", and prints on standard error."""
    before, nul, _ = Path(path).read_bytes().partition(b"\0")
    if nul:  # which Python's own error does not place
        line = before.count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: holds a NUL byte; a script is text. Save it as UTF-8.")
    try:
        with importable(path), contextlib.redirect_stdout(sys.stderr):
            return runpy.run_path(path, run_name=RUN_NAME)
    except SyntaxError as error:
        where = error.filename or path
        where = os.path.relpath(where) if Path(where).is_absolute() else where
        raise ValueError(f"{where}, line {error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        where = f"{path}, line {lines[-1]}" if lines else path
        kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
        raise ValueError(f"{where}: {kind}{_message(error)}") from error


@contextlib.contextmanager
def importable(path: str) -> Iterator[None]:
    """Let this process and those that it starts import modules from the folder of a script."""
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        yield
    finally:
        del sys.path[0]


def _remedy(names: Mapping[str, object]) -> str:
    """The remedy for a script that defines no study under a known name."""
    for name, value in names.items():
        if isinstance(value, Study):
            return f" Rename `{name}` to `{type(value).__name__.lower()}`."
    for name in NAMES:
        if name in names:
            return f" Its `{name}` is of type {type(names[name]).__name__}; write `{EXAMPLE}`."
    return f" Write `{EXAMPLE}` at its top level."


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


KINDS = {labels.SCENARIO: Scenario, labels.COMPARISON: Comparison, labels.EXPERIMENT: Experiment}


@dataclass(frozen=True)
class Stored:
    """A study as a folder holds it."""

    folder: Path
    study: Study
    origin: Origin


def load(run: str | os.PathLike[str], *, scenario: Scenario | None = None, trust: bool = False) -> Any:
    """The results that a folder keeps, without the scenario at hand.

    A scenario whose parts all have names in the library is made from scenario.json. Otherwise the script from which
    it was run is run again, under another name than "__main__". It is not run if it has changed since, nor if the
    script or the results lie where others may have put them: in a folder of another user, or one that anybody may write
    to. Either way it is the same scenario to the last digit, or refused. A run that was interrupted is loaded as far as
    its last checkpoint.

    Args:
        run: The folder, or its tag.
        scenario: The scenario, where neither its description nor a script can give it: it is checked to be this one.
        trust: Run the script in any case. Read it before: a script may do whatever you may do.

    Returns:
        For the folder of a scenario a `Result`, for that of a comparison name -> `Result`, and for that of an
        experiment its `Findings`.

    Raises:
        ValueError: If there is no such run (the nearest is named), its scenario cannot be made again, or a file is
            damaged or belongs to another one.
        FileNotFoundError: If it has no results yet.

    Example:
        >>> import tempfile
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=4, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.GEM(learning_rate=0.05), asim.workloads.Quadratic([1.0, 0.1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = asim.run(asim.Scenario(cluster, rule, workload, commits_per_worker=100), folder)
        ...     found = asim.load(folder)
        >>> found.scenario == done.scenario, found.summary == done.summary
        (True, True)
    """
    folder = find_run(run)
    label = labels.label_of(folder)
    if label is not None and label.name == labels.COMPARISON:
        if scenario is not None:
            raise ValueError("`scenario` is for the folder of one scenario; this one holds a comparison.")
        _read_label(label)
        return {name: load(member, trust=trust) for name, member in labels.members_of(folder).items()}
    if scenario is not None:
        return _result(folder, _checked(scenario, _read_label(folder / labels.SCENARIO)))
    study = load_study(folder, trust=trust).study
    if isinstance(study, Scenario):
        return _result(folder, study)
    assert isinstance(study, Experiment), "comparisons are read above"
    _require_files(folder, labels.NUMBERS)
    numbers = read_numbers(study, folder / labels.NUMBERS)
    return Findings(study, numbers, summary_of(numbers), folder, recomputed=False)


def load_study(run: str | os.PathLike[str], *, trust: bool = False) -> Stored:
    """The study of a folder, whether it has results or not, with `trust` as in `load`."""
    folder = find_run(run)
    label = labels.label_of(folder)
    assert label is not None, "`find_run` has seen it"
    content = _read_label(label)
    told = content.get(labels.ORIGIN) or {}
    origin = labels.origin_in(told) or Origin()
    try:
        if label.name == labels.EXPERIMENT:
            raise NotRebuilt("an experiment is a function of your own")
        study: Study = (_scenario if label.name == labels.SCENARIO else _comparison)(folder, content, told)
    except NotRebuilt as error:
        study = _from_script(label, content, told, str(error), trust)
    return Stored(folder, study, origin)


def _scenario(folder: Path, content: Mapping[str, Any], told: Mapping[str, Any]) -> Scenario:
    description = labels.description_in(content)
    trace = _recorded(folder, description)
    return rebuild(description, told.get("rebuild"), wanted=content[labels.DIGEST], trace=trace)


def _recorded(folder: Path, description: Mapping[str, Any]) -> Trace | None:
    """The recorded trace of a scenario, from its folder, or None if it has none, or the file is not there."""
    cluster = description.get("cluster")
    has_one = isinstance(cluster, Mapping) and "trace" in cluster
    return Trace.load(folder / labels.TRACE) if has_one and (folder / labels.TRACE).is_file() else None


def _comparison(folder: Path, content: Mapping[str, Any], told: Mapping[str, Any]) -> Comparison:
    hints = told.get("rebuild") or {}
    described, members = labels.description_in(content)["scenarios"], labels.members_of(folder)
    scenarios = {
        name: rebuild(one, hints.get(name), trace=_recorded(members[name], one)) for name, one in described.items()
    }
    made = Comparison(scenarios, told.get("title") or Comparison.title)
    if made.digest != content[labels.DIGEST]:
        raise NotRebuilt("this asyncsim makes another comparison of it")
    return made


def _from_script(label: Path, content: Mapping[str, Any], told: Mapping[str, Any], reason: str, trust: bool) -> Study:
    """The study as its script defines it."""
    kind = label.name.removesuffix(".json")
    by_hand = " Or give it yourself: asim.load(…, scenario=…)." if label.name == labels.SCENARIO else ""
    refused = f"The {kind} in {str(label.parent)!r} cannot be made again: {reason.rstrip('.')}."
    origin = labels.origin_in(told)
    if origin is not None and origin.member is None and labels.is_store(label.parent.parent):
        changes = swept_in(label.parent.parent).get(content[labels.DIGEST], {})
        origin = origin.with_changes({name: value for name, value in changes.items() if name != LANES})
    if origin is None or origin.script is None:
        raise ValueError(f"{refused} It was not run from a script.{by_hand}")
    script = str(origin.script)
    if not origin.script.is_file():
        raise ValueError(f"{refused} Its script {script!r} is missing. Put it back.{by_hand}")
    changed = labels.hash_of(origin.script) != told["script"].get("hash")
    doubt = "it has changed since" if changed else _doubt(label.resolve()) or _doubt(origin.script.resolve())
    if doubt is not None and not trust:
        remedy = (
            f"Read it, and then run it yourself, or let it be run: `trust=True`, `asyncsim animate --trust`.{by_hand}"
        )
        raise ValueError(f"{refused} Its script {script!r} is not run, because {doubt}. {remedy}")
    try:
        study = _member(study_of(script), origin)
    except ValueError as error:
        raise ValueError(f"{refused} Its script fails: {error}") from error
    if isinstance(study, Scenario):
        study = as_described(study, content)
    found = study.digest if isinstance(study, KINDS[label.name]) else None
    if found != content[labels.DIGEST]:
        different = labels.first_difference(labels.description_in(content), study.describe()) if found else f"no {kind}"
        since = "has changed since and " if changed else ""
        raise ValueError(f"{refused} Its script {script!r} {since}defines another one: {different}.{by_hand}")
    if changed:
        warnings.warn(f"The script {script!r} has changed since, but still defines this {kind}.", stacklevel=2)
    return study


def _doubt(file: Path) -> str | None:
    """Why a file may be the work of somebody else than this user, or None if it is not."""
    user = getattr(os, "getuid", lambda: None)()  # there are no such numbers on Windows
    for place in (file, file.parent):
        if user is not None and place.stat().st_uid not in (user, 0):
            return f"{str(place)!r} is another user's"
    for place in (file, *file.parents):
        mode = place.stat().st_mode
        if mode & stat.S_IWOTH and not (mode & stat.S_ISVTX and place != file.parent):
            return f"anybody may write to {str(place)!r}"
    return None


def _member(study: Study, origin: Origin) -> Study:
    """The study of a script with the changes to it, or one of its scenarios."""
    if origin.member is None:
        return study.override(**origin.changes)
    if not isinstance(study, Comparison) or origin.member not in study.scenarios:
        raise ValueError(f"it defines no scenario {origin.member!r}")
    scenario = study.scenarios[origin.member]
    try:
        return scenario.override(**origin.changes)
    except ValueError:  # this scenario need not have the fields that were changed in the comparison
        has = {field.name for field in scenario.fields()}
        return scenario.override(**{name: value for name, value in origin.changes.items() if name in has})


def _checked(scenario: Scenario, content: Mapping[str, Any]) -> Scenario:
    """A scenario that was given by hand, if it is the one of the label."""
    scenario = as_described(scenario, content)
    if scenario.digest != content[labels.DIGEST]:
        different = labels.first_difference(labels.description_in(content), scenario.describe())
        raise ValueError(f"`scenario` is another one than that of the folder: {different}.")
    return scenario


def _result(folder: Path, scenario: Scenario) -> Result:
    _require_files(folder, labels.TRACE, labels.RUN)
    try:
        return replace(load_result(scenario, folder), scenario=outside_lanes(scenario))
    except ValueError as error:
        raise ValueError(f"{error} {again(folder)}") from error


def _require_files(folder: Path, *names: str) -> None:
    for name in names:
        if not (folder / name).is_file():
            remedy = f"Go on with it: asyncsim run {str(folder)!r}"
            raise FileNotFoundError(f"{str(folder)!r} has no {name!r} yet. {remedy}")


def _read_label(label: Path) -> dict[str, Any]:
    """The content of a label."""
    content = labels.read_label(label)
    if content is None:
        raise ValueError(f"{str(label)!r} is damaged. {again(label.parent)}")
    return content
