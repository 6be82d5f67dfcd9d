"""The `asyncsim` command, and the same command line for a study that is run as a program of its own.

`_command` has the group of all commands and their errors, `_options` the flags of fields, `_output` tables and JSON,
`_progress` the bars. Each other module is a command, or what several commands share. The figures of a clone use
`_command`, `_output` and `_progress`, and the pages of the documentation are generated from `_command`, `_options`,
`_rules`, `_sweep` and `_kinds`. Nothing else of the library imports from here.
"""

import gc
import sys

from asyncsim.cli._interrupts import INTERRUPTED, Quitting, leave, quit_from_now_on, raise_from_now_on
from asyncsim.cli._streams import replace_closed

TYPE_CHECKING = False  # Importing it from `typing` takes longer than everything else here.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from asyncsim.scenario import Scenario
    from asyncsim.study import Comparison, Experiment

EXTRAS = ("click", "rich")
# Objects between two garbage collections: imports and tracing make millions that stay.
COLLECTION_THRESHOLD = 100_000


def program() -> "NoReturn":
    """Run the `asyncsim` command as a process of its own, which Ctrl-C ends in one line until the process is gone."""
    quit_from_now_on()
    replace_closed()
    status = _status(None, sys.argv[1:])
    quit_from_now_on()
    if status >= INTERRUPTED:
        leave(status)
    sys.exit(status)


def main(
    study: "Scenario | Comparison | Experiment | None" = None, arguments: "Sequence[str] | None" = None
) -> "NoReturn":
    """Run a command line and exit with its status: 0, 1 for a failure, 2 for wrong usage, 130 after Ctrl-C.

    A program that is a script of its own answers Ctrl-C in one line from here on. Before that, while it imports
    asyncsim and makes its study, Python answers, with a traceback and the same status. For `asyncsim run SCRIPT` this
    time is only that of finding the package, about a hundredth of a second.

    Args:
        study: The study of a script that is a program of its own: its flags are those of `asyncsim run`. By default
            the `asyncsim` command.
        arguments: The command line without the program's name, by default that of the process.

    Example:
        The last lines of a script:

        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> scenario = asim.Scenario(cluster, asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0]), commits=20)
        >>> if __name__ == "__main__":
        ...     asim.main(scenario)  # doctest: +SKIP
    """
    replace_closed()
    with Quitting():
        status = _status(study, sys.argv[1:] if arguments is None else list(arguments))
        quit_from_now_on()
    sys.exit(status)


def _status(study: "Scenario | Comparison | Experiment | None", arguments: list[str]) -> int:
    import importlib.util

    gc.set_threshold(COLLECTION_THRESHOLD)
    for package in EXTRAS:
        if importlib.util.find_spec(package) is None:
            needs = f"the command line needs {package}, which is not installed"
            print(f"Error: {needs}. Run: pip install 'asyncsim[cli]'", file=sys.stderr)
            return 1
    from asyncsim.cli._command import exit_status

    if study is None:
        from asyncsim.cli._command import app

        return exit_status(app, "asyncsim", arguments)
    from asyncsim.cli._run import study_command
    from asyncsim.cli._source import of_script

    script = sys.argv[0]
    raise_from_now_on()
    return exit_status(study_command(of_script(study, script)), f"python {script}", arguments)
