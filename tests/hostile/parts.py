"""All that is done, part by part."""

import resource
import sys
import time
import traceback
from itertools import islice
from pathlib import Path

import asyncsim as asim
from tests.hostile.damage import changed_bytes
from tests.hostile.ground import Ground, Trial, prepare, scenario
from tests.hostile.lines import command_lines
from tests.hostile.processes import at_once, ctrl_c, full_disk, killed, sweeps

FINISHED = "finished"  # folder of an undisturbed run
MOST_STATUS = 100  # with which a process leaves
SHARE = 8  # with --quick, one of so many trials
PARTS = {  # those that take longest first
    "sweeps": sweeps,
    "Ctrl-C": ctrl_c,
    "changed bytes": changed_bytes,
    "command lines": command_lines,
    "killed while writing": killed,
    "two processes at once": at_once,
    "full disk": full_disk,
}


def attempt(name: str, folder: Path, quick: bool) -> None:
    """Do a part; print a line for it and for all that gave way, and leave with the number of those."""
    prepare()
    finished = folder / FINISHED
    ground = Ground(folder, finished, asim.run(scenario(), finished))
    begun, trials, gave_way = time.monotonic(), 0, 0
    for trial in islice(PARTS[name](ground), 0, None, SHARE if quick else 1):
        trials += 1
        if complaint := complaint_about(trial):
            gave_way += 1
            print(f"GAVE WAY {name}: {trial.title}\n{complaint}", flush=True)
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = time.monotonic() - begun
    print(f"{name:<25}{trials:>6} trials {seconds:>6.0f} seconds, {used:.0f} of them on a core", flush=True)
    sys.exit(min(gave_way, MOST_STATUS))


def complaint_about(trial: Trial) -> str:
    """What gave way in a trial; an error of the trial itself is a complaint, too."""
    try:
        return trial.complaint()
    except Exception as error:
        return "".join(traceback.format_exception(error))
