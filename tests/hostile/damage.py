"""Files with one byte changed."""

import contextlib
import io
import random
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import asyncsim as asim
from asyncsim.cli import _source as script
from asyncsim.plots.style import is_picture_of
from asyncsim.store import _files as files
from asyncsim.store import _listing as listing
from tests.cli.commands import SCRIPT
from tests.hostile.ground import Ground, Trial, changed, only, scenario


def spread(whole: bytes, count: int) -> list[int]:
    """Places in a file, as far apart as can be; an odd distance, so that they do not keep step with a pattern."""
    return list(range(len(whole)))[:: len(whole) // count | 1]


def changed_bytes(ground: Ground) -> Iterator[Trial]:
    """One byte of a small file changed, before a person's call; tests/store/ changes every byte of each format."""
    rng = random.Random(0)
    out = Path(shutil.copytree(ground.finished, ground.folder / "changed"))

    def answered(what: str) -> str:
        """Results are found and are the same, or the folder is refused in one line."""
        try:
            with mock.patch.object(sys.modules["asyncsim.study._run"], "finish", side_effect=AssertionError(what)):
                found = asim.run(scenario(), out, picture=False)
        except ValueError as error:
            return "" if "\n" not in str(error) else f"several lines: {error}"
        if found.summary != ground.result.summary:
            return "another summary was believed"
        return "" if files.read_owned(out / "summary.json") == found.summary else "another summary was kept"

    def loaded() -> str:
        """The very same results are found again without their scenario, or the folder is refused in one line."""
        try:
            found = asim.load(out)
        except ValueError as error:
            return "" if "\n" not in str(error) else f"several lines: {error}"
        return "" if found.scenario == scenario() and found.summary == ground.result.summary else "others were loaded"

    label = (out / "scenario.json").read_bytes()
    for place in ground.chosen(spread(label, 600)):
        (out / "scenario.json").write_bytes(changed(label, place, rng))
        yield Trial(f"load, scenario.json, byte {place}", loaded())
        listed = listing.rows(out, {})
        if [row.name for row in listed] != [out.name]:
            yield Trial(f"runs, scenario.json, byte {place}", f"listed {listed}")
        (out / "scenario.json").write_bytes(label)

    for name in ("scenario.json", "summary.json"):
        whole = (out / name).read_bytes()
        for place in ground.chosen(spread(whole, 60)):
            (out / name).write_bytes(changed(whole, place, rng))
            yield Trial(f"{name}, byte {place}", answered(name))
            (out / name).write_bytes(whole)

    picture = (out / "report.png").read_bytes()
    for place in ground.chosen([*range(400), *rng.sample(range(400, len(picture)), 200)]):
        (out / "report.png").write_bytes(changed(picture, place, rng))
        believed = is_picture_of(scenario().digest, out / "report.png")
        yield Trial(f"report.png, byte {place}", "a damaged picture was taken for a whole one" if believed else "")

    ground.result.trace.to_csv(out / "trace.csv")
    table = (out / "trace.csv").read_bytes()
    for place in ground.chosen(spread(table, 400)):
        (out / "trace.csv").write_bytes(changed(table, place, rng))
        yield Trial(f"trace.csv, byte {place}", only(ValueError, partial(asim.Trace.from_csv, out / "trace.csv")))

    text = SCRIPT.replace('print("a script may print")', "").encode()
    for place in ground.chosen(list(range(len(text)))):
        (out / "study.py").write_bytes(changed(text, place, rng))
        with contextlib.redirect_stderr(io.StringIO()):
            complaint = only(ValueError, partial(script.load, str(out / "study.py")))
        yield Trial(f"study.py, byte {place}", complaint)
