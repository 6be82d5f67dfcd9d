"""The gallery: every script in `scenarios/` with its question, a finding and the time that it takes."""

import ast
import csv
from pathlib import Path

from tools.docstrings import escaped
from tools.reference import titled

REPOSITORY = Path(__file__).parents[2]
TABLE = REPOSITORY / "docs/reference/gallery.csv"
PICTURES = REPOSITORY / "docs/_static/gallery"
INTRODUCTION = """Every script in the folder ``scenarios/``. You run one with ``asyncsim run scenarios/NAME.py``, and
each of its fields is a flag. The times are CPU times on one core, compilation included. Scripts without a time take
minutes, or need MNIST.

"""


def page() -> str:
    """All scenarios by topic: those of the table in its order, then those that have no row yet."""
    rows = {row["scenario"]: row for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())}
    names = {path.stem for path in (REPOSITORY / "scenarios").glob("*.py")}
    order = [*(name for name in rows if name in names), *sorted(names - rows.keys())]
    topics: dict[str, list[str]] = {}
    for name in order:
        topics.setdefault((rows.get(name) or {}).get("topic") or "More", []).append(entry(name, rows.get(name)))
    sections = [titled(topic, "-") + "".join(entries) for topic, entries in topics.items()]
    return titled("Gallery of scenarios") + INTRODUCTION + "".join(sections)


def entry(name: str, row: dict[str, str] | None) -> str:
    """One scenario."""
    question = title(name).replace("`", "")  # code cannot stand in emphasis
    lines = [titled(name, "~")]
    if (PICTURES / f"{name}.png").exists():
        lines.append(f".. image:: /_static/gallery/{name}.png\n   :alt: The report of {name}: {question}\n\n")
    finding = row["finding"] if row else ""
    time = f"It takes {row['seconds']} s." if row and row["seconds"] else ""
    words = "".join(escaped([" ".join(filter(None, (finding, time)))]))
    return "".join([*lines, "*", *escaped([question]), f"* {words}\n\n"])


def title(name: str) -> str:
    """The first line of a script's docstring."""
    tree = ast.parse((REPOSITORY / "scenarios" / f"{name}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]
