"""The publication that a rule or a compressor is from, as BibTeX."""

from pathlib import Path

from asyncsim._arguments import check_arguments
from asyncsim._checks import nearest
from asyncsim._families import ours
from asyncsim.compressors import Compressor
from asyncsim.rules._rule import Rule
from asyncsim.rules._wrappers import innermost

BIBLIOGRAPHY = Path(__file__).with_name("citations.bib")  # entries separated by empty lines

KEYS_OF_ALL = {name: kind.publication for name, kind in {**ours("rules"), **ours("compressors")}.items()}


def citation(rule: Rule | Compressor | str) -> str:
    """BibTeX of the publication that a rule or a compressor is from.

    Args:
        rule: A rule, a compressor, or the name of its constructor. Of a compressed rule it is that of the rule itself.

    Returns:
        One entry, several lines.

    Raises:
        ValueError: If the rule is not one of the library's; the nearest name is suggested.

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
    name = _name(rule)
    if name not in KEYS_OF_ALL:
        near = nearest(name, KEYS_OF_ALL)
        hint = f" Did you mean {near!r}?" if near else " Cite the publication that you took it from."
        raise ValueError(f"`rule` must be one of the library's; got {name!r}, which has no citation here.{hint}")
    entries = BIBLIOGRAPHY.read_text(encoding="utf-8").strip().split("\n\n")
    return next(entry for entry in entries if f"{{{KEYS_OF_ALL[name]}," in entry)


def _name(rule: Rule | Compressor | str) -> str:
    """The name of a constructor."""
    if isinstance(rule, Compressor):
        return rule.name
    return innermost(rule).name if isinstance(rule, Rule) else str(rule)


check_arguments(__name__, ["citation"])
