"""Results found again: from a folder, or its tag, to what `asyncsim.run` returned."""

import json
import os
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncsim import npz
from asyncsim.folders.differences import first_difference
from asyncsim.folders.labels import (
    COMPARISON,
    DIGEST,
    EXPERIMENT,
    ORIGIN,
    RUN,
    SCENARIO,
    STORE,
    SUMMARY,
    TRACE,
    description_in,
    label_of,
    members_of,
    read_label,
)
from asyncsim.folders.listing import swept_in
from asyncsim.folders.places import again, find_run
from asyncsim.scenario import Scenario
from asyncsim.scenario.lanes import LANES, as_described, outside_lanes
from asyncsim.scenario.rebuild import NotByName, rebuild
from asyncsim.study.compare import Comparison
from asyncsim.study.experiment import FORMAT_VERSION, NUMBERS, Experiment, Findings, summary_of
from asyncsim.study.origin import Origin, hash_of, origin_in
from asyncsim.study.run import SECONDS, Result, load_run, load_trace
from asyncsim.study.script import Study, study_of
from asyncsim.study.summary import summarise
from asyncsim.trace import Trace

KINDS = {SCENARIO: Scenario, COMPARISON: Comparison, EXPERIMENT: Experiment}


@dataclass(frozen=True)
class Stored:
    """A study as a folder holds it.

    Attributes:
        folder: The folder.
        study: The scenario, comparison or experiment.
        origin: Where it came from, as far as it is known.
    """

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
        ValueError: If there is no such run (what is near is named), its scenario cannot be made again, or a file is
            damaged or belongs to another one.
        FileNotFoundError: If it has no results yet.

    Example:
        >>> import tempfile
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=4, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.GEM(learning_rate=0.05), asim.workloads.quadratic([1.0, 0.1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = asim.run(asim.Scenario(cluster, rule, workload, commits_per_worker=100), folder)
        ...     found = asim.load(folder)
        >>> found.scenario == done.scenario, found.summary == done.summary
        (True, True)
    """
    folder = find_run(run)
    label = label_of(folder)
    if label is not None and label.name == COMPARISON:
        if scenario is not None:
            raise ValueError("`scenario` is for the folder of one scenario; this one holds a comparison.")
        _read_label(label)
        return {name: load(member, trust=trust) for name, member in members_of(folder).items()}
    if scenario is not None:
        return _result(Stored(folder, _checked(scenario, _read_label(folder / SCENARIO)), Origin()))
    stored = load_study(folder, trust=trust)
    return _findings(stored) if isinstance(stored.study, Experiment) else _result(stored)


def load_study(run: str | os.PathLike[str], *, trust: bool = False) -> Stored:
    """The study of a folder, whether it has results or not; `trust` as in `load`.

    Raises:
        ValueError: If there is no such run, or its study cannot be made again.
    """
    folder = find_run(run)
    label = label_of(folder)
    assert label is not None, "`find_run` has seen it"
    content = _read_label(label)
    told = content.get(ORIGIN) or {}
    origin = origin_in(told) or Origin()
    make = {SCENARIO: _scenario, COMPARISON: _comparison, EXPERIMENT: _no_name}[label.name]
    try:
        study = make(folder, content, told)
    except NotByName as error:
        study = _from_script(label, content, told, str(error), trust)
    return Stored(folder, study, origin)


def _scenario(folder: Path, content: Mapping[str, Any], told: Mapping[str, Any]) -> Scenario:
    description = description_in(content)
    return rebuild(description, told.get("rebuild"), wanted=content[DIGEST], trace=_recorded(folder, description))


def _recorded(folder: Path, description: Mapping[str, Any]) -> Trace | None:
    """The recorded trace of a scenario, from its folder; None if it has none, or the file is not there."""
    cluster = description.get("cluster")
    has_one = isinstance(cluster, Mapping) and "trace" in cluster
    return Trace.load(folder / TRACE) if has_one and (folder / TRACE).is_file() else None


def _comparison(folder: Path, content: Mapping[str, Any], told: Mapping[str, Any]) -> Comparison:
    hints = told.get("rebuild") or {}
    described, members = description_in(content)["scenarios"], members_of(folder)
    scenarios = {
        name: rebuild(one, hints.get(name), trace=_recorded(members[name], one)) for name, one in described.items()
    }
    made = Comparison(scenarios, told.get("title") or Comparison.title)
    if made.digest != content[DIGEST]:
        raise NotByName("this asyncsim makes another comparison of it")
    return made


def _no_name(folder: Path, content: Mapping[str, Any], told: Mapping[str, Any]) -> Experiment:
    raise NotByName("an experiment is a function of your own")


def _from_script(label: Path, content: Mapping[str, Any], told: Mapping[str, Any], reason: str, trust: bool) -> Study:
    """The study as its script defines it.

    Raises:
        ValueError: If there is no script, it is not to be trusted, or it defines something else than it did.
    """
    kind = label.name.removesuffix(".json")
    by_hand = " Or give it yourself: asim.load(…, scenario=…)." if label.name == SCENARIO else ""
    refused = f"The {kind} in {str(label.parent)!r} cannot be made again: {reason}"
    origin = origin_in(told)
    if origin is not None and origin.member is None and (label.parent.parent / STORE).is_file():
        changes = swept_in(label.parent.parent).get(content[DIGEST], {})
        origin = origin.with_changes({name: value for name, value in changes.items() if name != LANES})
    if origin is None or origin.script is None:
        raise ValueError(f"{refused}, and it was not run from a script.{by_hand}")
    script = str(origin.script)
    if not origin.script.is_file():
        raise ValueError(f"{refused}, and its script {script!r} is missing. Put it back.{by_hand}")
    changed = hash_of(origin.script) != told["script"].get("hash")
    doubt = "it has changed since" if changed else _doubt(label.resolve()) or _doubt(origin.script.resolve())
    if doubt is not None and not trust:
        remedy = (
            f"Read it, and then run it yourself, or let it be run: `trust=True`, `asyncsim animate --trust`.{by_hand}"
        )
        raise ValueError(f"{refused}, and its script {script!r} is not run, because {doubt}. {remedy}")
    try:
        study = _member(study_of(script), origin)
    except ValueError as error:
        raise ValueError(f"{refused}, and its script fails: {error}") from error
    if isinstance(study, Scenario):
        study = as_described(study, content)
    found = study.digest if isinstance(study, KINDS[label.name]) else None
    if found != content[DIGEST]:
        different = first_difference(description_in(content), study.describe()) if found else f"no {kind}"
        since = "has changed since and " if changed else ""
        raise ValueError(f"{refused}, and its script {script!r} {since}defines another one: {different}.{by_hand}")
    if changed:
        warnings.warn(f"The script {script!r} has changed since, but still defines this {kind}.", stacklevel=2)
    return study


def _doubt(file: Path) -> str | None:
    """Why a file may be the work of somebody else than this user; None if it is not."""
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
    """The study of a script with what was changed in it, or one of its scenarios."""
    if origin.member is None:
        return study.override(**origin.changes)
    if not isinstance(study, Comparison) or origin.member not in study.scenarios:
        raise ValueError(f"it defines no scenario {origin.member!r}")
    scenario = study.scenarios[origin.member]
    try:
        return scenario.override(**origin.changes)
    except ValueError:  # what was changed in the comparison, this scenario need not have
        has = {field.name for field in scenario.fields()}
        return scenario.override(**{name: value for name, value in origin.changes.items() if name in has})


def _checked(scenario: Scenario, content: Mapping[str, Any]) -> Scenario:
    """A scenario that was given by hand, if it is the one of the label."""
    scenario = as_described(scenario, content)
    if scenario.digest != content[DIGEST]:
        different = first_difference(description_in(content), scenario.describe())
        raise ValueError(f"`scenario` is another one than that of the folder: {different}.")
    return scenario


def _result(stored: Stored) -> Result:
    folder, scenario = stored.folder, stored.study
    assert isinstance(scenario, Scenario)
    for name in (TRACE, RUN):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{str(folder)!r} has no {name!r} yet. Go on with it: asyncsim run {str(folder)!r}")
    try:
        trace = scenario.in_steps(load_trace(scenario, folder / TRACE))
        run, notes = load_run(scenario, folder / RUN)
    except ValueError as error:
        raise ValueError(f"{error} {again(folder)}") from error
    kept = notes.get(SUMMARY)
    seconds = {name: notes[name] for name in SECONDS if name in notes}
    summary = json.loads(kept) if kept else summarise(trace, run, **{"wall_seconds": 0.0, **seconds})
    return Result(outside_lanes(scenario), trace, run, summary, folder, recomputed=False)


def _findings(stored: Stored) -> Findings:
    experiment, path = stored.study, stored.folder / NUMBERS
    assert isinstance(experiment, Experiment)
    if not path.is_file():
        remedy = f"Go on with it: asyncsim run {str(stored.folder)!r}"
        raise FileNotFoundError(f"{str(stored.folder)!r} has no {NUMBERS!r} yet. {remedy}")
    numbers = npz.read(path, kind="experiment", version=FORMAT_VERSION)
    return Findings(experiment, numbers, summary_of(numbers), stored.folder, recomputed=False)


def _read_label(label: Path) -> dict[str, Any]:
    """The content of a label.

    Raises:
        ValueError: If it is damaged.
    """
    content = read_label(label)
    if content is None:
        raise ValueError(f"{str(label)!r} is damaged. {again(label.parent)}")
    return content
