"""Files with one byte changed."""

import contextlib
import io
import random
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import asyncsim as asim
from asyncsim.files._json import read_owned
from asyncsim.plots.style import is_picture_of
from asyncsim.store import _listing as listing
from asyncsim.study._load import study_of
from tests.cli.commands import SCRIPT
from tests.hostile.ground import Ground, Trial, only, scenario


def changed_bytes(ground: Ground) -> Iterator[Trial]:
    """One byte of a small file changed, before a person's call; tests/store/ changes every byte of each format."""
    rng = random.Random(0)
    out = Path(shutil.copytree(ground.finished, ground.folder / "changed"))
    ground.result.trace.to_csv(out / "trace.csv")
    (out / "study.py").write_text(SCRIPT.replace('print("a script may print")', ""))

    def trials(name: str, answer: Callable[[], str], places: Iterable[int]) -> Iterator[Trial]:
        """One for each of these places in a file, which is whole again afterwards."""
        whole = (out / name).read_bytes()

        def one(place: int) -> str:
            other = (whole[place] + rng.randrange(1, 256)) % 256
            (out / name).write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
            try:
                return answer()
            finally:
                (out / name).write_bytes(whole)

        for place in places:
            yield Trial(f"{name}, byte {place}", partial(one, place))

    def spread(name: str, count: int) -> range:
        """Places in a file, as far apart as can be; an odd distance, so that they do not keep step with a pattern."""
        size = (out / name).stat().st_size
        return range(0, size, size // count | 1)

    def answered() -> str:
        """Results are found and are the same, or the folder is refused in one line."""
        try:
            with mock.patch.object(
                sys.modules["asyncsim.study._replay"], "finish", side_effect=AssertionError("again")
            ):
                found = asim.run(scenario(), out, picture=False)
        except ValueError as error:
            return "" if "\n" not in str(error) else f"several lines: {error}"
        if found.summary != ground.result.summary:
            return "another summary was believed"
        return "" if read_owned(out / "summary.json") == found.summary else "another summary was kept"

    def loaded() -> str:
        """It is listed; the very same results are found without their scenario, or it is refused in one line."""
        listed = listing.rows(out, {})
        if [row.name for row in listed] != [out.name]:
            return f"listed {listed}"
        try:
            found = asim.load(out)
        except ValueError as error:
            return "" if "\n" not in str(error) else f"several lines: {error}"
        return "" if found.scenario == scenario() and found.summary == ground.result.summary else "others were loaded"

    def drawn() -> str:
        is_whole = is_picture_of(scenario().digest, out / "report.png")
        return "a damaged picture was taken for a whole one" if is_whole else ""

    def read() -> str:
        return only(ValueError, partial(asim.Trace.from_csv, out / "trace.csv"))

    def sourced() -> str:
        with contextlib.redirect_stderr(io.StringIO()):
            return only(ValueError, partial(study_of, str(out / "study.py")))

    yield from trials("scenario.json", loaded, spread("scenario.json", 600))
    for name in ("scenario.json", "summary.json"):
        yield from trials(name, answered, spread(name, 60))
    rest = range(400, (out / "report.png").stat().st_size)
    yield from trials("report.png", drawn, [*range(400), *rng.sample(rest, 200)])
    yield from trials("trace.csv", read, spread("trace.csv", 400))
    yield from trials("study.py", sourced, range((out / "study.py").stat().st_size))
