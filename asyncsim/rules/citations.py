"""The publication that a rule or a compressor is from, as BibTeX."""

from pathlib import Path

from asyncsim import compressors
from asyncsim.arguments import check_arguments
from asyncsim.checks import nearest
from asyncsim.compressors import Compressor
from asyncsim.rules.compressed import taken_apart
from asyncsim.rules.rule import Rule

BIBLIOGRAPHY = Path(__file__).with_name("citations.bib")  # entries separated by empty lines

# Rule -> key of its publication.
KEYS = {
    "adag": "hermans2017thesis",
    "adaptive_staleness": "hermans2018gem",
    "aeasgd": "zhang2015easgd",
    "agn": "hermans2017agn",
    "ca2fl": "wang2024ca2fl",
    "dana": "hakimi2019dana",
    "dc_asgd": "zheng2017dcasgd",
    "delay_adaptive": "mishchenko2022delays",
    "delayed_nesterov": "liu2024async",
    "diloco": "douillard2023diloco",
    "downpour": "dean2012distbelief",
    "drop_stale": "chen2016backup",
    "dynsgd": "jiang2017dynsgd",
    "eamsgd": "zhang2015easgd",
    "easgd": "zhang2015easgd",
    "fadas": "wang2024fadas",
    "fedasync": "xie2019fedasync",
    "fedbuff": "nguyen2022fedbuff",
    "gap_aware": "barkai2020gap",
    "gem": "hermans2018gem",
    "heavy_ball": "mitliagkas2016asynchrony",
    "ia2sgd": "maranjyan2025ringleader",
    "local_sgd": "stich2019local",
    "malenia": "tyurin2023rennala",
    "momentum_sgd": "polyak1964methods",
    "multi_asgd": "hakimi2019dana",
    "muon": "jordan2024muon",
    "pipemare": "yang2021pipemare",
    "rennala": "tyurin2023rennala",
    "ringleader": "maranjyan2025ringleader",
    "ringmaster": "maranjyan2025ringmaster",
    "server": "reddi2021adaptive",
    "shared_nesterov": "hakimi2019dana",
    "spectrain": "chen2018spectrain",
    "staleness_aware": "zhang2016staleness",
    "weight_prediction": "kosson2021pipelined",
    "worker": "deepmind2020jax",
    "yellowfin": "zhang2019yellowfin",
}

# Compressor -> key of its publication.
COMPRESSORS = {
    "identity": "karimireddy2019feedback",
    "low_rank": "vogels2019powersgd",
    "natural": "horvath2022natural",
    "qsgd": "alistarh2017qsgd",
    "rand_k": "stich2018sparsified",
    "scaled_sign": "karimireddy2019feedback",
    "top_k": "stich2018sparsified",
}
KEYS_OF_ALL = {**KEYS, **COMPRESSORS}


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
        >>> print(asim.citation(asim.rules.gem(learning_rate=0.1)))
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
        names = {kind: name for name, kind in compressors.CONSTRUCTORS.items()}
        return names.get(type(rule), type(rule).__name__)
    if not isinstance(rule, Rule):
        return str(rule)
    found = taken_apart(rule)
    return rule.name if found is None else found.rule.name


check_arguments(__name__, ["citation"])
