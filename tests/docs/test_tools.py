"""What makes and checks the documentation; the pages themselves are built, run and checked by `.ci/run`."""

import importlib
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(TOOLS))
    yield lambda name: importlib.import_module(f"tools.{name}")
    sys.path.remove(str(TOOLS))


def site(folder, **pages):
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="other.html#there">x</a>', None),
        ('<a href="#here" id="here">x</a> <a href="https://arxiv.org/abs/1805.08469">x</a>', None),
        ('<img src="other.html" alt="A loss that falls">', None),
        ('<a href="nothing.html">x</a>', "nothing.html leads nowhere"),
        ('<a href="other.html#away">x</a>', "other.html#away has no such anchor"),
        ('<a href="#away">x</a>', "#away has no such anchor"),
        ('<img src="other.html" alt="">', "the picture other.html has no text"),
        ('<script src="https://example.org/x.js"></script>', "https://example.org/x.js is fetched from elsewhere"),
    ],
)
def test_faults_of_pages(tools, tmp_path, text, fault):
    found = list(tools("check").dead_links(site(tmp_path, page=text, other='<p id="there">')))
    assert found == ([] if fault is None else [f"page.html: {fault}"])


def test_blocks_that_nobody_ran(tools, tmp_path):
    (tmp_path / "page.md").write_text(
        "```{code-cell}\n1\n```\n\n```text\nx\n```\n\n```python\n2\n```\n", encoding="utf-8"
    )
    assert [fault.partition(";")[0] for fault in tools("check").blocks_not_run(tmp_path)] == [
        "page.md: a block of python is not run"
    ]


def test_every_public_name_has_one_page(tools):
    import asyncsim

    names = tools("names").public_names()
    values = [name.value for name in names]
    for module in (asyncsim, asyncsim.rules, asyncsim.delays, asyncsim.theory, asyncsim.plots, asyncsim.workloads):
        for public in module.__all__:
            value = getattr(module, public)
            assert type(value) is type(sys) or any(value is other for other in values), public
    pages = [name.page.lower() for name in names]
    assert len(set(pages)) == len(pages)  # also where capitals do not count
