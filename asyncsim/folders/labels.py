"""What a folder holds, by the small JSON files in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsim.files import read_owned

SCENARIO, COMPARISON, EXPERIMENT = "scenario.json", "comparison.json", "experiment.json"
LABELS = (SCENARIO, COMPARISON, EXPERIMENT)
STORE = "store.json"  # says that the folder is the store of a sweep, with the folders of its runs in it
RUNS = "runs"  # the store of a comparison, in its folder
CLAIMS, SWEEPS = "claims", "sweeps"  # folders of a store: who computes what, and what was asked for
TRACES, FAILED, DATA, MAKING, UNFINISHED = "traces", "failed", "data", ".making", "unfinished"  # its other ones
STORE_FOLDERS = (UNFINISHED, TRACES, FAILED, CLAIMS, SWEEPS, DATA, MAKING)
TRACE, RUN, SUMMARY, REPORT = "trace.npz", "run.npz", "summary.json", "report.png"
REPORT_PAGE = "report.html"  # where it is asked for
PAGE, GIF = "movie.html", "movie.gif"  # of an experiment that has a movie, or of `asyncsim animate`
DIGEST, ORIGIN = "digest", "origin"  # entries of a label beside the description: its hash, and where it came from
MEMBERS = "members"  # entry of the origin of a comparison: name -> digest of the scenario


def label_of(folder: Path) -> Path | None:
    """The file that says what the folder holds; None if there is none.

    Example:
        >>> label_of(Path("no/such/folder")) is None
        True
    """
    return next((folder / name for name in LABELS if (folder / name).is_file()), None)


def digest_of(folder: Path) -> str | None:
    """The digest of the study whose results the folder holds; None if that cannot be read."""
    label = label_of(folder)
    content = None if label is None else read_label(label)
    return None if content is None else content[DIGEST]


def read_label(label: Path) -> dict[str, Any] | None:
    """The content of a label; None if there is none, or it is damaged.

    In a store a folder has the digest for its name: the label of another one, wherever it came from, is damage.
    """
    content = read_owned(label)
    if content is None or not isinstance(content.get(DIGEST), str):
        return None
    in_store = (label.parent.parent / STORE).is_file()
    return None if in_store and label.parent.name != content[DIGEST] else content


def members_of(comparison: Path) -> dict[str, Path]:
    """Name -> folder of each scenario of a comparison; nothing if that cannot be read.

    Example:
        >>> members_of(Path("no/such/folder"))
        {}
    """
    origin = (read_label(comparison / COMPARISON) or {}).get(ORIGIN) or {}
    return {name: comparison / RUNS / digest for name, digest in origin.get(MEMBERS, {}).items()}


def description_in(label: Mapping[str, Any]) -> dict[str, Any]:
    """The description in a label, without its digest and its origin.

    Example:
        >>> description_in({"digest": "ab", "commits": 8, "origin": {"date": "today"}})
        {'commits': 8}
    """
    return {key: value for key, value in label.items() if key not in (DIGEST, ORIGIN)}
