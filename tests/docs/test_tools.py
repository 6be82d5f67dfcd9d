"""Tools that make and check the documentation, whose pages `.ci/run` builds, runs and checks."""

import asyncio
import importlib
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

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


PLAIN = "You see how old a gradient is, and we count it. " * 40


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (PLAIN, None),
        (PLAIN + "```python\n" + "what; " * 90 + "\n```\n| what; what; what; what; what; |\n`a; b; c; d`", None),
        (PLAIN + "It is old; it is slow; so it is. " * 2, "semicolons"),
        (PLAIN + "This shows what it is and what it was. " * 2, "what"),
        ("The age of a gradient is counted by the server. " * 40, "we"),
    ],
)
def test_prose_that_is_not_plain(tools, text, fault):
    check = tools("check")
    found = list(check.not_plain({"page.md": check.fingerprint(text)}))
    assert all(fault in one for one in found) if fault else not found
    assert bool(found) == (fault is not None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<dt>f(x: Delay)</dt>", None),
        ("<dt>f(x: ~asyncsim.delays.Delay)</dt>", "raw `~`"),
        ("<p>**Simulation** (npe)</p>", "raw stars"),
        ('<p>workers</p><ol class="loweralpha simple"><li></li></ol>', "begins a list"),
        ('<dl class="py property"><dt>x</dt><dd><dl><dt>Type<span>:</span></dt></dl></dd></dl>', "property"),
        ("<dt>Returns<span>:</span></dt>\n<dd><p><em>One row</em> -- of all</p></dd>", "result"),
        ("<p>Σ\\_{w≠i}</p>", "backslash"),
        ("<p>Args: as in <a>other</a></p>", "raw `Args:`"),
        ("<strong>sd</strong> (<em>mean,</em>) -- Moments.", "share a text"),
        ("<p>See asyncsim._metrics.</p>", "a private name"),
        ('<dl class="py function"><em class="sig-param">x</em></dl>', "without `Parameters`"),
        ('<dl class="py function"><em class="sig-param">x</em><dt>Parameters</dt></dl>', None),
    ],
)
def test_docstrings_that_are_misread(tools, tmp_path, text, fault):
    generated = tmp_path / "reference/generated"
    generated.mkdir(parents=True)
    site(generated, page=text)
    found = list(tools("check").misread(tmp_path))
    assert [fault in one for one in found] == ([] if fault is None else [True])


def test_a_page_repeats_the_arguments_errors_and_sources_that_a_docstring_refers_to(tools):
    from asyncsim import theory

    sections = tools("sections")
    found, whole = (
        sections.split(sections.completed(function, sections.docstring(function)))
        for function in (theory.queue_length, theory.throughput)
    )
    assert all(found[title] == whole[title] for title in ("Args:", "Raises:", "References:"))
    derived = sections.completed(theory.queue_staleness_variance, sections.docstring(theory.queue_staleness_variance))
    assert sections.split(derived)["Args:"] == whole["Args:"]
    assert sections.split(derived)["References:"][0] == sections.DERIVED


def test_frames_of_interactive_pages(tools, tmp_path):
    check = tools("check")
    assert len([*check.heavy_frames(tmp_path)]) == 2 * len(check.INTERACTIVE)  # none is there, and none is shown
    frames = []
    for name in check.INTERACTIVE:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x" * check.MOST_BYTES)
        frames.append(f'<iframe class="a" src="../{name}?t=1" title="a" loading="lazy"></iframe>')
    (tmp_path / "page.html").write_text("\n".join(frames))
    assert [*check.heavy_frames(tmp_path)] == []
    (tmp_path / check.INTERACTIVE[0]).write_text("x" * (check.MOST_BYTES + 1))
    assert [fault.partition(":")[0] for fault in check.heavy_frames(tmp_path)] == [check.INTERACTIVE[0]]


def test_the_gallery_has_every_scenario(tools):
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    page = tools("gallery").page()
    for path in (TOOLS.parent / "scenarios").glob("*.py"):
        assert f"\n{path.stem}\n~~~" in page


def test_every_public_name_has_one_page(tools):
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    import asyncsim

    names = tools("names").public_names()
    values = [name.value for name in names]
    for module in (asyncsim, asyncsim.rules, asyncsim.delays, asyncsim.theory, asyncsim.plots, asyncsim.workloads):
        for public in module.__all__:
            value = getattr(module, public)
            assert type(value) is type(sys) or any(value is other for other in values), public
    described = [name.path for page in tools("reference").all_pages() for name in page.names]
    assert sorted(described) == sorted(name.path for name in names)
    pages = [page.name.lower() for page in tools("reference").all_pages()]
    assert len(set(pages)) == len(pages)  # also where capitals do not count


def test_a_class_with_two_names_has_one_page(tools):
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    others, own = tools("names").other_names(), {name.path for name in tools("names").public_names()}
    assert others["asyncsim.datasets.partition"] == "asyncsim.datasets.Partition"
    assert tools("reference").page_of_names()["asyncsim.datasets.Partition"].startswith("datasets-partition#")
    assert not others.keys() & own


def test_pages_with_commands_and_replays_are_thought_to_take_longest(tools):
    pytest.importorskip("myst_nb", reason="the extra `docs` is not installed")
    effort = tools("execute").effort
    command, replay, plain = "!asyncsim run study.py", "run = asim.replay(trace, rule, workload)", "print(trace)"
    assert effort(command) > effort(replay) > effort(plain) == 0
    assert effort(f"{command}\n{replay}") == effort(command) + effort(replay)


TABLE = """
.. list-table::
   :header-rows: 1

   * - you have
     - take
     - why
   * - momentum
     - dana
     - {why}
"""


@pytest.mark.parametrize(
    ("cell", "pieces"),
    [
        ("0.0437 ± 0.0015", ["0.0437 ± 0.0015"]),
        ("−0.0069 ± 1.2e-05", ["−0.0069 ± 1.2e-05"]),
        ("1.5 (1.44 to 1.59)", ["1.5", "(1.44 to 1.59)"]),
        ("0.0007 (−0.0023 to 0.0037)", ["0.0007", "(−0.0023 to 0.0037)"]),
        ("+1.9 % of all", ["+1.9 %", "of", "all"]),
        ("≤ 1.17, ≤ 1.16", ["≤ 1.17,", "≤ 1.16"]),
        ("L = 16, cv = 0.3", ["L = 16,", "cv", "=", "0.3"]),
        ("a (b to c) ± d %", ["a", "(b", "to", "c)", "±", "d", "%"]),
        ("``a = 1``", ["a", "=", "1"]),
    ],
)
def test_lines_of_a_cell_end_between_its_numbers_and_not_inside_of_them(tools, cell, pieces):
    docutils = pytest.importorskip("docutils.core", reason="the extra `docs` is not installed")
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    doctree = docutils.publish_doctree(TABLE.format(why=cell))
    tools("tables").keep_numbers_whole(None, doctree)
    last = [entry.astext() for entry in doctree.findall() if entry.tagname == "entry"][-1]
    assert [piece.replace("\xa0", " ") for piece in last.split(" ")] == pieces


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (":vartype a: asyncsim.trace._trace.Trace | None", ":vartype a: Trace | None"),
        (
            "   :vartype a: ~collections.abc.Callable[[asyncsim.rules._rule.View], typing.Any]",
            "   :vartype a: ~Callable[[View], Any]",
        ),
        (":vartype a: tuple[str, ...]", ":vartype a: tuple[str, ...]"),
        (":ivar a: As in `asyncsim.cluster.Cluster`.", ":ivar a: As in `asyncsim.cluster.Cluster`."),
    ],
)
def test_types_of_attributes_have_no_modules(tools, line, expected):
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    lines = [line]
    tools("docstrings").shorten_types(None, "class", "Scenario", None, None, lines)
    assert lines == [expected]


def test_navigation_is_made_once_for_the_pages_of_a_folder_that_stand_nowhere_in_it(tools):
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    orphan = {"orphan": ""}
    app = SimpleNamespace(
        env=SimpleNamespace(metadata={"api/a": orphan, "api/b": orphan, "other/c": orphan, "page": {}})
    )
    made = []

    def tree(page):
        context = {"toctree": lambda **options: made.append(page) or f"tree of {page}, {options}"}
        tools("navigation").share(app, page, "page.html", context, None)
        return context["toctree"](maxdepth=2)

    found = [tree(page) for page in ("api/a", "api/b", "other/c", "page", "page")]
    assert found[0] == found[1] != found[2]
    assert made == ["api/a", "other/c", "page", "page"]


def test_a_kernel_runs_pages_one_after_another_and_forgets_each(tools, tmp_path, monkeypatch):
    pytest.importorskip("myst_nb", reason="the extra `docs` is not installed")
    from nbformat.v4 import new_code_cell, new_notebook

    monkeypatch.setenv("ASYNCSIM_REPOSITORY", str(TOOLS.parent))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS", raising=False)  # which the tests themselves set

    def page(*cells):
        return new_notebook(cells=list(map(new_code_cell, cells)))

    pages = {
        "first": page(
            "import os\nx = 1\nopen('mine', 'w').close()", "os.path.exists('mine'), os.path.isdir('scenarios')"
        ),
        "leans on the first": page("x"),
        "fails": page("1 / 0"),
        "how-to/quick": page("import os", "'JAX_DISABLE_MOST_OPTIMIZATIONS' in os.environ, 'x' in globals()"),
        "how-to/cores": page("import os", "'JAX_DISABLE_MOST_OPTIMIZATIONS' in os.environ, 'x' in globals()"),
        "on its own": page("import os", "'x' in globals(), os.path.exists('mine'), os.path.isdir('scenarios')"),
    }
    pages = {Path(name): page for name, page in pages.items()}
    run = tools("execute")._run
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop that belongs to a browser
        done = thread.submit(lambda: asyncio.run(run(pages.items(), timeout=60))).result()
    results = {str(path): notebook.cells[-1].outputs[0].data["text/plain"] for path, notebook, _ in done}
    assert results == {
        "first": "(True, True)",
        "how-to/quick": "(True, False)",
        "how-to/cores": "(False, False)",
        "on its own": "(False, False, True)",
    }
    cells = [cell for _, notebook, _ in done for cell in notebook.cells]
    assert [cell.metadata for cell in cells] == [{}] * 8  # Sphinx looks results up by this, too


def test_every_flag_of_the_command_line_has_a_meaning(tools):
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    text = tools("commands").page()
    flags = re.findall(r"^``(-.*)``\n   (.*)$", text, re.MULTILINE)
    assert len(flags) > 150
    assert all(len(meaning.split()) > 1 and "system:" not in meaning for _, meaning in flags)
    assert "in seconds" in dict(flags)["--mean NUMBER"]
    for name in ("areal", "verl", "pipeline"):
        assert f"asyncsim staleness --cluster {name}\n" in text


def test_paths_of_the_building_machine_are_found(tools, tmp_path):
    site(
        tmp_path,
        good="<pre>/home/me/asyncsim/runs/one</pre>",
        bad="<pre>/opt/lib/site-packages/a/b.py:1: UserWarning: port</pre>",
    )
    assert [*tools("check").building_machine(tmp_path)] == [
        "bad.html: shows '/opt/lib/site-packages/a/b.py', of the machine that built it"
    ]


def test_the_table_of_the_tutorials_has_every_question_and_a_value_of_each_schedule(tools):
    import csv

    story = tools("story")
    with story.TABLE.open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert {line[0] for line in lines} == set(story.QUESTIONS)
    assert all(len(line) == len(header) == len(story.KEYS) + story.SCHEDULES for line in lines)
    assert all(float(value) >= 0 for line in lines for value in line[len(story.KEYS) :])


def test_a_setting_is_quoted_at_the_step_with_the_lowest_mean(tools, tmp_path, monkeypatch):
    pytest.importorskip("IPython", reason="the extra `docs` is not installed")
    measured = tools("measured")
    table = tmp_path / "story.csv"
    table.write_text(
        "question,setting,quantity,step size,a,b\nq,x,s,.1,9,9\nq,x,s,.2,1,3\nq,x,s,.4,0,inf\nq,y,s,.1,inf,inf\n"
    )
    monkeypatch.setattr(measured, "TABLE", table)
    assert measured.best("q", "s") == {"x": (0.2, 2.0, 1.0, 3.0)}
    text = measured.table("q", {"x": "the name"}, {"s": "seconds"}).data
    assert text.splitlines()[-1] == "| the name | 2 (1 to 3) | 0.2 |"
    with pytest.raises(ValueError, match="no rows"):
        measured.best("q", "other")


def test_a_step_at_which_one_schedule_fails_has_no_mean(tools, tmp_path, monkeypatch):
    pytest.importorskip("IPython", reason="the extra `docs` is not installed")
    table = tmp_path / "table.csv"
    rows = ["question,setting,quantity,step size,schedule 0,schedule 1", "q,x,s,0.1,1,2", "q,x,s,0.2,1,inf"]
    table.write_text("\n".join(rows), encoding="utf-8")
    measured = tools("measured")
    monkeypatch.setattr(measured, "TABLE", table)
    text = measured.at_steps("q", {"x": "the name"}, (0.1, 0.2), "s").data
    assert text.splitlines()[-1] == "| the name | 1.5 | not reached |"


def test_a_setting_that_no_step_brings_to_the_target_is_not_reached_and_has_no_best_step(tools, tmp_path, monkeypatch):
    pytest.importorskip("IPython", reason="the extra `docs` is not installed")
    table = tmp_path / "story.csv"
    rows = ["q,x,seconds,.1,1,3", "q,x,seconds,.2,2,8", "q,y,seconds,.1,1,inf"]
    table.write_text("\n".join(["question,setting,quantity,step size,a,b", *rows]), encoding="utf-8")
    measured = tools("measured")
    monkeypatch.setattr(measured, "TABLE", table)
    lines = measured.table("q", {"x": "best", ("x", 0.2): "larger", "y": "never"}).data.splitlines()
    assert lines[2:] == ["| best | 2 (1 to 3) | 0.1 |", "| larger | 5 (2 to 8) | 0.2 |", "| never | not reached | – |"]


def test_a_crossed_table_has_the_best_of_each_column_in_a_row(tools, tmp_path, monkeypatch):
    pytest.importorskip("IPython", reason="the extra `docs` is not installed")
    table = tmp_path / "story.csv"
    rows = ["question,setting,quantity,step size,a,b", 'q,"one, 8",seconds,.1,1,3', 'q,"two, 8",seconds,.4,4,6']
    table.write_text("\n".join(rows), encoding="utf-8")
    measured = tools("measured")
    monkeypatch.setattr(measured, "TABLE", table)
    lines = measured.crossed("q", {"8": "eight"}, {"two": "II", "one": "I"}, "n").data.splitlines()
    assert lines[0] == "| n | II | best η | I | best η |"
    assert lines[2:] == ["| eight | 5 (4 to 6) | 0.4 | 2 (1 to 3) | 0.1 |"]


def test_the_index_quotes_the_ratio_of_the_limits_and_the_time_that_gem_saves_with_40_workers(tools):
    measured = tools("measured")
    limits, seconds = measured.best("limits", "limit"), measured.best("more")
    ratio = limits["8, gamma, cv 0.3"].mean / limits["40, gamma, cv 0.3"].mean
    saved = 1 - seconds["40, GEM"].mean / seconds["8, GEM"].mean
    line = next(line for line in (TOOLS / "index.md").read_text("utf-8").splitlines() if "| I go from 8 to 40" in line)
    assert f"a {ratio:.1f} times smaller step" in line
    assert f"takes {100 * saved:.0f} % less time" in line


def test_the_index_quotes_the_ratios_of_the_story(tools):
    measured = tools("measured")
    best, every = measured.best("story"), measured.rows("story")
    small = [every[f"{n}, asynchronous", 0.05].mean() for n in (4, 16)]
    ratios = [small, *([best[f"{n}, {rule}"].mean for n in (4, 16)] for rule in ("asynchronous", "GEM"))]
    line = next(line for line in (TOOLS / "index.md").read_text("utf-8").splitlines() if "| Will 16 GPUs" in line)
    assert re.findall(r"[\d.]+(?= times)", line) == [f"{four / sixteen:.1f}" for four, sixteen in ratios]


def test_synonyms_of_the_search_are_words_that_readers_type(tools):
    synonyms = tools("check").words_of_the_search(TOOLS)
    assert synonyms["optimizer"] == "optimiser"
    assert all(re.fullmatch(r"[\w -]+", word) and word == word.lower() for word in synonyms)
    assert not synonyms.keys() & {word for words in synonyms.values() for word in words.split()}


@pytest.mark.quick
def test_names_that_users_need_come_before_the_others_of_their_package(tools):
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    reference = tools("reference")
    for package, names in reference.by_package():
        needed = [f"asyncsim.{name}" for name in reference.NEEDED.get(package, "").split()]
        assert [name.path for name in reference.by_need(package, names)][: len(needed)] == needed
        assert {name.path for name in reference.by_need(package, names)} == {name.path for name in names}
