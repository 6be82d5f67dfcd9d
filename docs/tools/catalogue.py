"""The catalogue of update rules, made of their docstrings, their citations and the zoo's results."""

import csv
import inspect
import re
from pathlib import Path

from asyncsim.cli._rules import AROUND, constructors, explain
from asyncsim.components import built_in_classes
from tools.docstrings import escaped
from tools.reference import titled

ZOO = Path(__file__).parents[1] / "reference" / "zoo.csv"
PARTS = (*built_in_classes("weights"), *built_in_classes("step_schedules"))  # arguments of rules around rules
FIELD = re.compile(r"^  (\w+) = \{(.*)\},?$", re.MULTILINE)
INTRODUCTION = """All rules that you can use with ``asyncsim run SCENARIO.py --rule NAME``. θ is the central variable, s
the value at which a worker computed its gradient, τ the staleness, η the step size (``learning_rate``) and μ momentum.
:doc:`/how-to/choose-a-rule` helps you to choose. The row "In the zoo" is from there. It has the median and quartiles of
the training loss over ten seeds. Rules combine: at the end are :ref:`rules around other rules <rule-compressed>`, such
as local steps with any rule at the server, the weights by age that ``weighted`` takes, and the schedules that
``scheduled`` takes.

"""


def page() -> str:
    """The whole catalogue."""
    zoo = list(csv.DictReader(ZOO.read_text(encoding="utf-8").splitlines()))
    entries = [entry(name, zoo) for name in (*built_in_classes("rules"), *AROUND, *PARTS)]
    return titled("The catalogue of update rules") + INTRODUCTION + "".join(entries)


def entry(name: str, zoo: list[dict[str, str]]) -> str:
    """Return the entry of a rule, of a rule around a rule, of a weight or of a schedule."""
    found = explain(name)
    lines = [f".. _rule-{name.replace('_', '-')}:\n\n", titled(name, "-")]
    lines += [f"{text(found['summary'])}\n\n", f"{text(found['description'])}\n\n"]
    if found["made_for"]:
        lines.append(f":Made for: {text(found['made_for'])}\n")
    if name not in PARTS:
        lines.append(f":State: {kept(name)}\n")
    lines += [f":Arguments: {arguments(found)}\n", f":Source: {text(' '.join(found['references'].split()))}\n"]
    if found["bibtex"]:
        lines.append(f":Publication: {publication(found['bibtex'])}\n")
    forms = [row for row in zoo if row["rule"].partition(",")[0] == name]
    if forms:
        lines.append(f":In the zoo: {'; '.join(map(result, forms))}\n")
    return "".join([*lines, f":Reference: `asyncsim.rules.{constructors()[name].__name__}`\n\n"])


def result(row: dict[str, str]) -> str:
    """A row of the zoo."""
    form = row["rule"].partition(", ")[2]
    return f"{form}{form and ': '}loss {row['loss']} at step size {row['step size']}"


def text(words: str) -> str:
    """A docstring's text as reStructuredText."""
    return "\n".join(escaped(words.splitlines()))


def kept(name: str) -> str:
    """The state that a rule keeps, from its docstring."""
    documentation = inspect.getdoc(constructors()[name]) or ""
    found = re.search(r"^The rule keeps ((?:.|\n)+?)\.(?:\s|$)", documentation, re.MULTILINE)
    return text(" ".join(found[1].split())) if found else "no state"


def arguments(found: dict) -> str:
    """Each argument with its default, or marked as required."""
    shown = [f"``{key}`` (required)" for key in found["required"]]
    return ", ".join([*shown, *(f"``{key}={value!r}``" for key, value in found["defaults"].items())])


def publication(bibtex: str) -> str:
    """Authors, title, where and when, with a link to its DOI or its arXiv number."""
    entry = {key: re.sub(r"\\.|[{}]", "", value) for key, value in FIELD.findall(bibtex)}
    where = entry.get("booktitle") or entry.get("journal") or entry.get("school") or entry.get("note") or "preprint"
    words = f"{entry['author'].replace(' and ', '; ')}: {entry['title']}. {where}, {entry['year']}"
    links = [f"`doi:{entry['doi']} <https://doi.org/{entry['doi']}>`__"] if "doi" in entry else []
    links += [f"`arXiv:{entry['eprint']} <https://arxiv.org/abs/{entry['eprint']}>`__"] if "eprint" in entry else []
    return ". ".join([text(words), *links])
