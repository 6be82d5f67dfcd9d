"""`asyncsim run`: the command line of a study."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from asyncsim import _memory as memory
from asyncsim._metrics import counted
from asyncsim.cli._command import Checked, Command, Interrupted, say, wrong_usage
from asyncsim.cli._options import OTHER_FLAGS, FieldCommand, help_for_option
from asyncsim.cli._output import json_option, out_option, print_comparison, print_numbers, print_results, print_summary
from asyncsim.cli._progress import Bar
from asyncsim.cli._source import Source, changes_of, find_source, place_of
from asyncsim.engine import ReplayInterrupted, use_all_cores
from asyncsim.files._atomic import require_own
from asyncsim.scenario import Scenario
from asyncsim.scenario._scenario import every_setting_of_scenarios, settings_of_regions
from asyncsim.store import tags
from asyncsim.store._labels import REPORT_PAGE, RUN, Origin, label_of, members_of
from asyncsim.study import Comparison, Experiment, compare, run
from asyncsim.study._load import Study
from asyncsim.study._run import write_html

HELP = """Simulate a scenario, replay it, and write its summary, its numbers and a picture into a folder.

SCENARIO.py is a script that defines a `scenario`, a `comparison` or an `experiment`. If you give the folder of a run or
its tag instead, an interrupted run continues. A folder never runs code, so if a rule or a model is your own, also name
the script that defines it: asyncsim run DIR --script FILE. Each field has a flag:

\b
  asyncsim run SCENARIO.py --workers 30 --rule downpour --learning-rate 0.1

\b
  asyncsim run SCENARIO.py --help              its flags, with present values
  asyncsim run SCENARIO.py --rule agn --help   the same with another rule
  asyncsim run --help-for agn                  flags of a rule, a law, …
  asyncsim run --help-for all                  all flags
  asyncsim rules                               the rules
"""
LEAST_ANNOUNCED = 120.0  # seconds that are worth a word beforehand


class ScriptCommand(Command):
    """A command whose flags are those of the script, folder or tag that it is given, and without one only a help."""

    def __init__(self, name: str, help: str, options: list[click.Option]) -> None:
        def missing(**flags: Any) -> None:
            raise click.UsageError("Missing argument SCENARIO.py: the script that defines a scenario.")

        params = [*options, help_for_option()]
        super().__init__(
            name=name,
            params=[*params],
            help=help,
            options_metavar="SCENARIO.py [OPTIONS]",
            callback=missing,
            # The flags depend on the script, which is not loaded yet.
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
        self.flags = ["-h", "--help", *(flag for option in params if option.is_flag for flag in option.opts)]

    def command_of(self, path: str, script: str | None) -> FieldCommand:
        """Return the command for a script, or for a folder and the script that it needs."""
        return study_command(find_source(path, script))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Load the script, and parse the rest of the line with the flags that its fields ask for."""
        place = find_script(args, self.flags)
        if place is None:
            return super().make_context(info_name, args, parent, **extra)
        path, (script, words) = args[place], take_script([*args[:place], *args[place + 1 :]])
        use_all_cores()
        with click.Context(self, parent, info_name):  # An error in the script names the command by it.
            command = self.command_of(path, script)
        return command.make_context(f"{info_name} {path}", words, parent, **extra)


def script_option() -> click.Option:
    """Return the flag `--script`. Its value decides the other flags, so `take_script` finds it before click does."""
    help = "Script that defines the study of a folder, if a part of it is your own. It is run, so read it before."
    return click.Option(["--script"], metavar="FILE", expose_value=False, help=help)


def take_script(args: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of `--script`, or None, and the other arguments."""
    for place, word in enumerate(args):
        flag, equals, value = word.partition("=")
        if flag == "--script" and (equals or place + 1 < len(args)):
            return value or args[place + 1], [*args[:place], *args[place + (1 if equals else 2) :]]
    return None, args


def output_options(default: str) -> list[click.Option]:
    """Return the flags that say where results go."""
    out_help = "Folder for the results. Existing results of the same study are reused."
    force_help = "Compute again. The results in the folder are replaced at the end."
    tag_help = "Name the folder, so that `asyncsim show NAME` finds it."
    return [
        out_option(f"{default} and the changed fields", out_help),
        click.Option(["--tag"], type=Checked("name", tags.require_name), metavar="NAME", help=tag_help),
        script_option(),
        json_option("the summary"),
        click.Option(["--html"], is_flag=True, help="Also write report.html, an interactive report."),
        click.Option(["--force"], is_flag=True, help=force_help),
    ]


def study_command(source: Source) -> FieldCommand:
    """Return the command that runs a study, with a flag for each of its fields."""
    study, name = source.study, source.folder.name
    # The fields of an experiment are the arguments of its function, which no choice of a component changes.
    has_components = not isinstance(study, Experiment)

    def callback(out: str | None, tag: str | None, as_json: bool, html: bool, force: bool, **flags: Any) -> None:
        changes = {key: value for key, value in flags.items() if value is not None}
        with wrong_usage():
            changed = study.override(**changes)
        if html and isinstance(study, Experiment):
            raise click.UsageError("`--html` is for scenarios and comparisons; an experiment draws its report itself.")
        place = out or str(place_of(source, changed, changes))
        origin = source.origin.with_changes(changes_of(source, changed, changes))
        with tag_afterwards(tag, place):
            run_study(changed, name, place, as_json, force, origin, html=html)

    return FieldCommand(
        name=name,
        fields=study.fields if has_components else lambda **components: study.fields(),
        every_setting=lambda: {**every_setting_of_scenarios(), **settings_of_regions(study)},
        options=[*output_options(str(source.folder)), *([help_for_option()] if has_components else [])],
        help=f"Run the {type(study).__name__.lower()} of {source.argument}. Present values stand in brackets.",
        epilog=OTHER_FLAGS if has_components else None,
        callback=callback,
    )


@contextmanager
def tag_afterwards(name: str | None, folder: str) -> Iterator[None]:
    """Refuse the tag of another folder at once, and tag the folder at the end or interruption of the block."""
    if name is None:
        yield
        return
    previous = tags.every().get(name)
    if previous is not None and os.path.realpath(previous.place) != os.path.realpath(folder):
        raise ValueError(
            tags.exists_already(previous).replace("move the tag (`--move`)", "forget it (`asyncsim untag`)")
        )
    try:
        yield
    finally:
        # An interrupted run has a label already, and its tag finds it again.
        if label_of(Path(folder)) is not None:
            tags.add(folder, name, move=previous is not None)


def run_study(
    study: Study, name: str, out: str, as_json: bool, force: bool, origin: Origin, *, html: bool = False
) -> None:
    """Run a study with a progress bar, and print its results."""
    use_all_cores()  # A script that is a program of its own comes here first.
    with Bar() as bar, explain_interrupts(study, bar, force):
        show: Callable[[Any], None]
        if isinstance(study, Experiment):
            bar.expect(name)
            findings = study.run(out, force=force, origin=origin)
            results, summary, show, recomputed = {}, findings.summary, print_numbers, findings.recomputed
        else:
            announce_duration(study, out, force)
            if isinstance(study, Comparison):
                bar.expect(next(iter(study.scenarios)))
                results = compare(study, out, progress=bar.update, simulating=bar.simulate, force=force, origin=origin)
                summary, show = {key: result.summary for key, result in results.items()}, print_comparison
            else:
                bar.expect(name)
                update, simulate = partial(bar.update, name), partial(bar.simulate, name)
                results = {name: run(study, out, progress=update, simulating=simulate, force=force, origin=origin)}
                summary, show = results[name].summary, print_summary
            recomputed = any(result.recomputed for result in results.values())
    if html:
        for result in results.values():
            assert result.folder is not None
            require_own(result.folder / REPORT_PAGE)
            write_html(result, result.folder / REPORT_PAGE)
    remark = "" if recomputed else ", found there (--force computes them again)"
    print_results(summary, as_json, partial(show, summary), f"Results in {out}{remark}")


def announce_duration(study: Scenario | Comparison, out: str, force: bool) -> None:
    """Announce a run of minutes on standard error, and refuse one for which there is no memory."""
    scenarios = study.scenarios if isinstance(study, Comparison) else {"": study}
    # The folder of a comparison may have some of its runs already.
    members = members_of(Path(out))
    # Finished ones take no time, and the progress bar appears only with the first replay.
    todo = [
        scenario
        for name, scenario in scenarios.items()
        if force or not (members.get(name, Path(out, name)) / RUN).is_file()
    ]
    seconds = sum(scenario.expected_seconds for scenario in todo)
    if seconds >= LEAST_ANNOUNCED:
        for scenario in todo:
            scenario.require_memory()
        say(f"This takes at least {memory.duration(seconds)}.")


@contextmanager
def explain_interrupts(study: Study, bar: Bar, force: bool) -> Iterator[None]:
    """Turn Ctrl-C into an error that says how to continue."""
    # With --force, the same command would begin anew.
    again = "without --force, the same command continues" if force else "the same command continues"
    try:
        yield
    except ReplayInterrupted as interrupt:
        # Ctrl-C may come before the first report.
        total = interrupt.run.commits if bar.latest is None else bar.latest.total
        done = f"Interrupted after {interrupt.run.commits:,} of {counted(total, 'commit', ',')}"
        raise Interrupted(f"{done}; {again} from there.", interrupt) from interrupt
    except KeyboardInterrupt as interrupt:
        words = f"; {again} from the last checkpoint."
        if isinstance(study, Experiment):
            remark = "The same command goes on with the runs that are done"
            words = f". {remark if study.has_store else 'An experiment starts anew; nothing was kept'}."
        elif bar.latest is None:
            words = ". Nothing has been replayed by this command."
        raise Interrupted(f"Interrupted{words}", interrupt) from interrupt


def find_script(arguments: Iterable[str], flags: Collection[str]) -> int | None:
    """Return the place of the script among the arguments: the first that is neither a flag nor a flag's value."""
    value_follows = False
    for place, argument in enumerate(arguments):
        if value_follows:
            value_follows = False
        elif argument.startswith("-"):
            # A flag that is no switch takes the next word, unless it has its value behind an equals sign.
            value_follows = argument not in flags and "=" not in argument
        else:
            return place
    return None


command = ScriptCommand("run", HELP, output_options("runs/<name of the script>"))
