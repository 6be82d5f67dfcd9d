"""What `asyncsim staleness` and `asyncsim stability` share: predictions next to a simulation."""

from collections.abc import Callable
from typing import Any, NamedTuple

from asyncsim.cli._answer import Answer, answer_options
from asyncsim.cli._command import wrong_usage
from asyncsim.cli._kinds import KIND
from asyncsim.cli._options import FieldCommand
from asyncsim.cli._output import json_option, print_results
from asyncsim.cli._progress import StageBar
from asyncsim.cluster import Cluster
from asyncsim.components._field import Field
from asyncsim.components._settings import every_setting
from asyncsim.engine import use_all_cores
from asyncsim.files._json import write_json
from asyncsim.plots.style import save_png


class Report(NamedTuple):
    """A report in three forms: numbers for JSON, a table on standard output, and a picture of `size` inches."""

    numbers: dict[str, Any]
    print: Callable[[], None]
    draw: Callable[[Any], object]
    size: tuple[float, float]


def report_command(
    name: str,
    help: str,
    fields: Callable[..., list[Field]],
    answer: Callable[[dict[str, Any], Callable[[str, float], None]], Report],
) -> FieldCommand:
    """Return the command that answers a question about a cluster. A ValueError becomes wrong usage."""

    def callback(out: str | None, as_json: bool, force: bool, **flags: Any) -> None:
        use_all_cores()
        changed = {field: value for field, value in flags.items() if value is not None}
        with StageBar() as bar:
            with wrong_usage():
                # A law or a protocol that a flag names has defaults of its own, so the flags are listed again for
                # these choices.
                present = {field.name: field for field in fields() if field.name in changed}
                named = {name: changed[name] for name, f in present.items() if f.choices and f.group == "Cluster"}
                usual = {field.name: field.value for field in fields(**named)}
                # A choice itself counts as changed only if it differs from the choice of the command without flags.
                before = usual | {name: present[name].value for name in named}
            owner = Answer(name, usual | changed)
            # Changes stand in the order of the help, so that one question always has one folder name.
            ordered = {field: changed[field] for field in (*usual, *changed) if field in changed}
            changes = {field: value for field, value in ordered.items() if value != before.get(field)}
            place = owner.place(out, changes, f"{name}.json", f"{name}.png")
            owner.require(place, force)
            with wrong_usage():
                report = answer(dict(changed), bar.update)
            with owner.lease(place, force) as folder:
                save_png(folder / f"{name}.png", report.draw, report.size)
                write_json(folder / f"{name}.json", report.numbers)
        print_results(report.numbers, as_json, report.print, f"Picture and numbers in {place.path}")

    def others() -> dict[str, Field]:
        """Return the flags of all kinds of clusters, without values for those that a `Cluster` has."""
        (kinds,) = (field.choices[1:] for field in fields() if field.name == KIND.name)
        settings_of_kinds = {field.name: field for kind in kinds for field in fields(cluster=kind)}
        return settings_of_kinds | every_setting(Cluster, "cluster.")

    return FieldCommand(
        name=name,
        fields=fields,
        every_setting=others,
        options=[
            *answer_options(name, "the changed fields", "the picture and the numbers"),
            json_option("the numbers"),
        ],
        help=help,
        epilog="For the flags of another law or protocol, name it and ask for --help, as in `--compute pareto --help`.",
        callback=callback,
    )
