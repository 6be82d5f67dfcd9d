"""What a folder holds, by the small JSON files in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsim.files import read_json

SCENARIO, COMPARISON, EXPERIMENT = "scenario.json", "comparison.json", "experiment.json"
LABELS = (SCENARIO, COMPARISON, EXPERIMENT)
STORE = "store.json"  # says that the folder is the store of a sweep, with the folders of its runs in it
RUNS = "runs"  # the store of a comparison, in its folder
CLAIMS = "claims"  # the folder of a store that says who computes what
SWEEPS = "sweeps"  # the folder of a store that says what was asked for
TRACE, RUN, SUMMARY, REPORT = "trace.npz", "run.npz", "summary.json", "report.png"
REPORT_PAGE = "report.html"  # where it is asked for
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
    content = None if label is None else read_json(label)
    digest = content.get(DIGEST) if isinstance(content, dict) else None
    return digest if isinstance(digest, str) else None


def members_of(comparison: Path) -> dict[str, Path]:
    """Name -> folder of each scenario of a comparison; nothing if that cannot be read.

    Example:
        >>> members_of(Path("no/such/folder"))
        {}
    """
    label = read_json(comparison / COMPARISON)
    names = label.get("scenarios") if isinstance(label, Mapping) else None
    if not isinstance(names, Mapping):
        return {}
    origin = label.get(ORIGIN)
    digests = origin.get(MEMBERS) if isinstance(origin, Mapping) else None
    if not isinstance(digests, Mapping):
        return {}
    return {name: comparison / RUNS / str(digests.get(name)) for name in names}


def description_in(label: Mapping[str, Any]) -> dict[str, Any]:
    """The description in a label, without its digest and its origin.

    Example:
        >>> description_in({"digest": "ab", "commits": 8, "origin": {"date": "today"}})
        {'commits': 8}
    """
    return {key: value for key, value in label.items() if key not in (DIGEST, ORIGIN)}
