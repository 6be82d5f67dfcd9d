"""The counts that pages state are those of the code and of the folders."""

import re
from pathlib import Path

import pytest

from asyncsim.components import built_in_classes

ROOT = Path(__file__).parents[2]
WORDS = {"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "forty": 40}
COUNT = rf"(\d+|{'|'.join(WORDS)})"
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/reference/peers.md",
    "docs/tutorials/index.md",
    "docs/how-to/choose-a-rule.md",
)


def stated(pattern):
    """Return page -> counts before these words."""
    texts = {page: re.sub(r"\s+", " ", (ROOT / page).read_text(encoding="utf-8")) for page in PAGES}
    found = {page: re.findall(rf"\b{COUNT} {pattern}", text, re.IGNORECASE) for page, text in texts.items()}
    return {page: [WORDS.get(n.lower()) or int(n) for n in counts] for page, counts in found.items() if counts}


def lessons():
    """Return the number of lessons but for the optional one."""
    return len(
        re.findall(r"^\| \[\d+\. ", (ROOT / "docs/tutorials/index.md").read_text(encoding="utf-8"), re.MULTILINE)
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    ("pattern", "count", "pages"),
    [
        (r"(?:published )?(?:update )?rules;? ", lambda: len(built_in_classes("rules")), 3),
        (r"(?:short )?lessons", lessons, 3),
    ],
    ids=["rules", "lessons"],
)
def test_pages_state_the_counts_of_the_code(pattern, count, pages):
    counts = {page: [n for n in numbers if n > 5] for page, numbers in stated(pattern).items()}
    assert len(counts) >= pages
    assert {n for numbers in counts.values() for n in numbers} == {count()}, counts
