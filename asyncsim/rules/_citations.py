"""The publication that a rule, a compressor, a weight or a schedule is from, as BibTeX."""

from pathlib import Path

from asyncsim._checks import brief, nearest
from asyncsim.components._checked import checked
from asyncsim.components._families import FAMILIES
from asyncsim.compressors import Compressor
from asyncsim.rules._rule import Rule
from asyncsim.rules._schedules import StepSchedule
from asyncsim.rules._weights import Weight

BIBLIOGRAPHY = Path(__file__).with_name("citations.bib")  # entries separated by empty lines


@checked
def citation(rule: Rule | Compressor | Weight | StepSchedule | str) -> str:
    """Return the BibTeX of the publication that a rule, a compressor, a weight or a schedule is from.

    Args:
        rule: A rule, a compressor, a weight, a schedule, or the name of its constructor. Of a rule around another one,
            such as a compressed rule, it is that of the rule inside.

    Returns:
        One entry, several lines.

    Raises:
        ValueError: If the rule is not one of the library's. The message suggests the nearest name.

    Example:
        >>> import asyncsim as asim
        >>> print(asim.citation(asim.rules.GEM(learning_rate=0.1)))
        @misc{hermans2018gem,
          author = {Hermans, Joeri and Louppe, Gilles},
          title = {Gradient Energy Matching for Distributed Asynchronous Gradient Descent},
          eprint = {1805.08469},
          archiveprefix = {arXiv},
          year = {2018},
        }
    """
    families = ("rules", "compressors", "weights", "step_schedules")
    classes = {name: kind for family in families for name, kind in FAMILIES[family].items()}
    name = rule if isinstance(rule, str) else rule.innermost.name if isinstance(rule, Rule) else rule.name
    entry = entry_of(getattr(classes.get(name), "publication", None))
    if entry is None:
        near = None if name in classes else nearest(name, classes)
        hint = f" Did you mean {near!r}?" if near else " Cite the publication that you took it from."
        raise ValueError(f"`rule` must be one of the library's; got {brief(name)}, which has no citation here.{hint}")
    return entry


def entry_of(key: str | None) -> str | None:
    """Return the entry of the bibliography with this key, if there is one."""
    entries = BIBLIOGRAPHY.read_text(encoding="utf-8").strip().split("\n\n")
    return next((entry for entry in entries if f"{{{key}," in entry), None)
