"""Results loaded from a folder or its tag, as `asyncsim.run` returned them, and the studies of scripts.

A folder never runs code, because somebody else may have made it. Only the scripts that a person names are run.
"""

import contextlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from asyncsim.components._address import paths_named
from asyncsim.components._checked import checked
from asyncsim.components._description import SCRIPT, NotRebuilt
from asyncsim.components._digest import hash_of
from asyncsim.scenario import Scenario
from asyncsim.scenario._rebuild import LANES, as_described, outside_lanes, rebuild, require_same_numbers
from asyncsim.store import _labels as labels
from asyncsim.store._labels import Origin
from asyncsim.store._listing import swept_in
from asyncsim.store._places import explain_recomputation, find, find_run, require_run
from asyncsim.study._compare import Comparison
from asyncsim.study._experiment import Experiment, Findings, read_numbers, summary_of
from asyncsim.study._result_files import Result, read_data, read_result
from asyncsim.study._store import StoredSweep, open_store
from asyncsim.trace import Trace

Study = Scenario | Comparison | Experiment
NAMES = ("experiment", "comparison", "scenario")  # If a script defines several, the first of these is run.
EXAMPLE = "scenario = asim.Scenario(...)"
DECORATED_TWICE = "Cannot overwrite attribute __setattr__"  # Python's words for a dataclass that is decorated again


def study_of(path: str) -> Study:
    """Run a script and return its study: `experiment` or `comparison`, or else `scenario`."""
    names = names_of(path)
    studies = {name: study for name in NAMES if isinstance(study := names.get(name), Study)}
    if {"experiment", "comparison"} <= studies.keys():
        raise ValueError(f"{path} defines both `experiment` and `comparison`. Give each a script of its own.")
    if not studies:
        raise ValueError(f"{path} defines no `scenario`, `comparison` or `experiment`.{_remedy(names)}")
    return next(iter(studies.values()))


def names_of(path: str) -> dict[str, object]:
    """Run a script under another name than "__main__", with its prints on standard error, and return its names."""
    before, nul, _ = Path(path).read_bytes().partition(b"\0")
    if nul:  # Python's own error names no line.
        line = before.count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: holds a NUL byte; a script is text. Save it as UTF-8.")
    try:
        with importable(path), contextlib.redirect_stdout(sys.stderr):
            return runpy.run_path(path, run_name=SCRIPT)
    except SyntaxError as error:
        where = error.filename or path
        where = os.path.relpath(where) if Path(where).is_absolute() else where
        raise ValueError(f"{where}, line {error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        # The error may be raised in the library: the last line of the script led there.
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        where = f"{path}, line {lines[-1]}" if lines else path
        # Messages of these errors are sentences, and those of others make no sense without the name of the error.
        kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
        raise ValueError(f"{where}: {kind}{_message(error)}") from error


@contextlib.contextmanager
def importable(path: str) -> Iterator[None]:
    """Let this process and those that it starts import modules from the folder of a script."""
    folder = str(Path(path).resolve().parent)
    before = sys.path.count(folder)
    sys.path.insert(0, folder)  # Python does the same for a script that it runs.
    try:
        yield
    finally:
        if sys.path.count(folder) > before:  # The script may have changed the path as well.
            sys.path.remove(folder)


def _remedy(names: Mapping[str, object]) -> str:
    """Suggest a remedy for a script that defines no study under one of the names."""
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
    if DECORATED_TWICE in str(error):
        return f"{error}. Leave out its `@dataclass`, because its base class makes it one."
    return str(error)


KINDS = {labels.SCENARIO: Scenario, labels.COMPARISON: Comparison, labels.EXPERIMENT: Experiment}


@dataclass(frozen=True)
class Stored:
    """A study as a folder holds it."""

    folder: Path
    study: Study
    origin: Origin


@checked
def load(run: str | os.PathLike[str], *, scenario: Scenario | None = None) -> Any:
    """Load the results of a folder, without the scenario at hand.

    The folder may come from somebody else, so nothing in it is run or imported. A scenario is rebuilt from the
    library's components, and from the classes and functions at the top level of your own modules that you have
    imported, if their code has not changed. It is then the same scenario to the last digit. Otherwise the results are
    loaded as data: trace, losses, records, parameters by name and summary, and `Result.scenario` is None. A run that
    was interrupted is loaded as far as its last checkpoint.

    Data sets are read from files only if you have named them, too: in the folder that ASYNCSIM_DATA names, or by a data
    set that this process made before. Nothing is downloaded.

    Args:
        run: The folder, or its tag.
        scenario: The scenario, if a part of it is your own: it is checked to be this one.

    Returns:
        For the folder of a scenario a `Result`, for that of a comparison name -> `Result`, and for that of an
        experiment its `Findings`, whose `experiment` is None. For the store of a sweep a `StoredSweep`: digest ->
        `Result`, each read when you ask for it, with the table of the sweep as `.table()`.

    Raises:
        ValueError: If there is no such run (the nearest is named), it was computed with other settings of JAX or
            by another revision of asyncsim, or a file is damaged or belongs to another one.
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
    folder = find(run)
    if not labels.is_store(folder):
        return load_with(require_run(folder, run), scenario)
    if scenario is not None:
        raise ValueError("`scenario` is for the folder of one run; this is a store. Give the folder of the run in it.")
    return StoredSweep(open_store(folder, create=False), load_with)


def load_with(folder: Path, study: Study | None = None) -> Any:
    """Load the results of a folder, with its study if a person gives it."""
    label, content = _read_label(folder)
    expected = KINDS[label.name]
    if study is not None and not isinstance(study, expected):
        kind = expected.__name__.lower()
        raise ValueError(f"{str(folder)!r} holds a {kind}, which no {type(study).__name__.lower()} fits. Leave it out.")
    if label.name == labels.COMPARISON:
        scenarios = study.scenarios if isinstance(study, Comparison) else {}
        return {name: load_with(member, scenarios.get(name)) for name, member in labels.members_of(folder).items()}
    if study is not None:
        study = _checked(study, content)
    # The function of an experiment is a person's own, so it is never rebuilt.
    if label.name == labels.EXPERIMENT:
        require_same_numbers(content)
        _require_files(folder, labels.NUMBERS)
        numbers = read_numbers(content[labels.DIGEST], folder / labels.NUMBERS)
        assert study is None or isinstance(study, Experiment)
        return Findings(study, numbers, summary_of(numbers), folder, recomputed=False)
    try:
        scenario = study or _scenario(folder, content)
    except NotRebuilt as error:
        return _result(folder, content, str(error))  # Trace, losses and parameters are data, which need no scenario.
    assert isinstance(scenario, Scenario)
    return _result(folder, content, scenario)


def load_study(run: str | os.PathLike[str], script: str | None = None) -> Stored:
    """Rebuild the study of a folder, with results or without, from its description or a script that a person names."""
    folder = find_run(run)
    label, content = _read_label(folder)
    origin = labels.origin_in(_origin_in(content)) or Origin()
    kind = label.name.removesuffix(".json")
    if script is not None:
        origin = _origin_in_sweep(label, content, replace(origin, script=Path(script)))
        try:
            study = _checked(_member(study_of(script), origin), content)
        except ValueError as error:
            raise ValueError(f"`--script` {script!r} does not give the {kind} in {str(folder)!r}: {error}") from error
        return Stored(folder, study, origin)
    try:
        if label.name == labels.EXPERIMENT:
            raise NotRebuilt("an experiment is a function of your own")
        study = (_scenario if label.name == labels.SCENARIO else _comparison)(folder, content)
    except NotRebuilt as error:
        raise ValueError(
            f"The {kind} in {str(folder)!r} cannot be rebuilt: {str(error).rstrip('.')}. A folder runs no code. "
            f"{_continued(folder, origin)}"
        ) from error
    return Stored(folder, study, origin)


def _continued(folder: Path, origin: Origin) -> str:
    """Say how a person goes on with a run that needs code."""
    script = quote(str(origin.script or "FILE"))
    named = f"asyncsim run {quote(str(folder))} --script {script}"
    # The script alone makes another study than a member of a comparison or an entry of a sweep.
    if origin.script is None or origin.member is not None or labels.is_store(folder.parent):
        return f"Name the script that defines it: {named}"
    flags = [f"--{name.replace('_', '-')} {quote(flag_text(value))}" for name, value in origin.changes.items()]
    line = " ".join(["asyncsim run", script, *flags, "--out", quote(str(folder))])
    return f"If you know its script, use its own command line, {line}, or {named}"


def flag_text(value: Any) -> str:
    """Write a changed value as its flag takes it."""
    if isinstance(value, Mapping):
        return ",".join(name if stride is None else f"{name}={stride}" for name, stride in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin_in(content: Mapping[str, Any]) -> Mapping[str, Any]:
    origin = content.get(labels.ORIGIN)
    return origin if isinstance(origin, Mapping) else {}


def _scenario(folder: Path, content: Mapping[str, Any]) -> Scenario:
    description = labels.description_in(content)
    trace = _load_recorded(folder, description)
    return rebuild(description, _origin_in(content).get("rebuild"), digest=content[labels.DIGEST], trace=trace)


def _load_recorded(folder: Path, description: Mapping[str, Any]) -> Trace | None:
    """Read the recorded trace of a scenario from its folder, or None if it has none or the file is missing."""
    cluster = description.get("cluster")
    has_one = isinstance(cluster, Mapping) and "trace" in cluster
    return Trace.load(folder / labels.TRACE) if has_one and (folder / labels.TRACE).is_file() else None


def _comparison(folder: Path, content: Mapping[str, Any]) -> Comparison:
    origin, members = _origin_in(content), labels.members_of(folder)
    try:
        hints = origin.get("rebuild") or {}
        scenarios = {
            name: rebuild(scenario, hints.get(name), trace=_load_recorded(members.get(name, folder), scenario))
            for name, scenario in labels.description_in(content)["scenarios"].items()
        }
        comparison = Comparison(scenarios, origin.get("title") or Comparison.title)
    except (LookupError, TypeError, AttributeError) as error:  # Anybody may have written the label, in any form.
        raise NotRebuilt(f"its label is none of a comparison: {error}") from error
    if comparison.digest != content[labels.DIGEST]:
        raise NotRebuilt("this asyncsim makes another comparison of it")
    return comparison


def _origin_in_sweep(label: Path, content: Mapping[str, Any], origin: Origin) -> Origin:
    """Add the fields that a sweep changed to the origin, if the folder is in its store."""
    changes = swept_in(label.parent.parent).get(content[labels.DIGEST], {}) if origin.member is None else {}
    return origin.with_changes({name: value for name, value in changes.items() if name != LANES})


def _member(study: Study, origin: Origin) -> Study:
    """Return the study of a script with the changes to it, or one of its scenarios."""
    if origin.member is None:
        return study.override(**origin.changes)
    if not isinstance(study, Comparison) or origin.member not in study.scenarios:
        raise ValueError(f"it defines no scenario {origin.member!r}")
    scenario = study.scenarios[origin.member]
    try:
        return scenario.override(**origin.changes)
    except ValueError:  # A scenario may lack fields that were changed in the comparison.
        has = scenario.settings()
        return scenario.override(**{name: value for name, value in origin.changes.items() if paths_named(name, has)})


def _checked(study: Study, content: Mapping[str, Any]) -> Study:
    """Return a study that a person gives, if it is the one of the label."""
    study = study.current()
    if isinstance(study, Scenario):
        study = as_described(study, content)
    if study.digest != content[labels.DIGEST]:
        kind = type(study).__name__.lower()
        different = labels.first_difference(labels.description_in(content), study.describe())
        raise ValueError(f"`{kind}` is another one than that of the folder: {different}.")
    return study


def _result(folder: Path, content: Mapping[str, Any], scenario: Scenario | str) -> Result:
    """Read the result of a scenario, or as data with the reason why there is no scenario."""
    _require_files(folder, labels.TRACE, labels.RUN)
    digest = content[labels.DIGEST]
    try:
        if isinstance(scenario, str):
            if hash_of(labels.description_in(content)) != digest:  # A rebuilt scenario is compared with its digest.
                raise ValueError(f"{labels.SCENARIO!r} in {str(folder)!r} was edited: its digest differs.")
            return read_data(digest, folder, scenario)
        return replace(read_result(scenario, folder), scenario=outside_lanes(scenario))
    except ValueError as error:
        raise ValueError(f"{error} {explain_recomputation(folder)}") from error


def _require_files(folder: Path, *names: str) -> None:
    for name in names:
        if not (folder / name).is_file():
            remedy = f"Go on with it: asyncsim run {str(folder)!r}"
            raise FileNotFoundError(f"{str(folder)!r} has no {name!r} yet. {remedy}")


def _read_label(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Read the label of a folder, and return it with its content."""
    label = labels.label_of(folder)
    assert label is not None, "`find_run` has seen it"
    content = labels.read_label(label)
    if content is None:
        raise ValueError(f"{str(label)!r} is damaged. {explain_recomputation(folder)}")
    return label, content
