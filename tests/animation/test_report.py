"""The interactive report: the content of its page, and its behaviour in a browser."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.animation._report import report_page
from tests.animation.browser import Watched
from tests.animation.problems import trace_of
from tests.animation.test_movie import EVIL, film_in


@pytest.fixture(scope="module")
def result():
    trace = trace_of("crashes")
    rule, workload = asim.rules.GEM(0.05), asim.workloads.Quadratic([1.0, 0.1])
    return trace, asim.replay(trace, rule, workload, record=("energy_central", "energy_proxy"))


def test_the_page_holds_what_was_measured(result):
    trace, run = result
    page = report_page(trace, run, EVIL, EVIL, predicted=[0.5, 0.5], tables={EVIL: [(EVIL, EVIL)]})
    assert page.count("<script") == 2
    held = film_in(page)
    assert np.sum(held["staleness"]["shares"]) == pytest.approx(1.0, abs=1e-3)
    assert held["staleness"]["mean"] == trace.staleness.mean()
    loss, energies, pi = held["panels"]
    assert loss["lines"][0]["y"][0] == pytest.approx(run.loss[0], rel=1e-3)
    assert [line["name"] for line in energies["lines"]] == ["central variable", "proxy"]
    assert (pi["lines"], pi["remark"][:5]) == ([], "No π ")
    assert held["jobs"]["worker"] == trace.worker.tolist()
    assert held["tables"] == [{"title": EVIL, "rows": [[EVIL, EVIL]]}]


def test_a_long_trace_is_shown_in_part(result, monkeypatch):
    from asyncsim.animation import _report as report

    monkeypatch.setattr(report, "MOST_COMMITS", 20)
    held = film_in(report_page(*result, "long"))
    assert held["commits"] == 20
    assert held["remark"] == "The timeline shows the first 20 of 40 commits."


def test_several_seeds_are_refused():
    trace = trace_of("plain")
    run = asim.replay(trace, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0, 0.1]), seed=(0, 1))
    with pytest.raises(ValueError, match="`run` must be of one seed, with commits; this one has 2 seeds"):
        report_page(trace, run, "two")


def test_the_report_in_a_browser(result, browser, tmp_path):
    trace, run = result
    path = tmp_path / "report.html"
    path.write_text(report_page(trace, run, EVIL, tables={"Summary": [("commits", EVIL)]}), encoding="utf-8")
    for width, scheme in ((1200, "light"), (390, "dark")):
        with Watched(browser, path, viewport=(width, 900), media={"color_scheme": scheme}) as watched:
            page = watched.page
            watched.wait("window.report !== undefined && document.getElementById('state').textContent !== ''")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.text_content("h1") == page.text_content("td") == EVIL
            assert page.locator("canvas").count() == 6
            assert page.locator("p.words").count() == 5
            assert all(text.endswith(".") for text in page.locator("p.words").all_text_contents())
            opened = watched.state()
            assert (opened["from"], opened["to"]) == (0, pytest.approx(10.0))
            strip = page.locator("#strip")
            strip.click(position={"x": strip.bounding_box()["width"] - 8, "y": 20})
            later = watched.state()
            assert later["to"] == pytest.approx(page.evaluate("report.film.stop / report.film.per_second"))
            assert later["to"] - later["from"] == pytest.approx(10.0)
            page.focus("#strip")
            page.keyboard.press("0")
            whole = watched.state()
            assert (whole["from"], whole["version"]) == (0, trace.steps)
            page.focus("#timeline")
            page.keyboard.press("+")
            nearer = watched.state()
            assert nearer["to"] - nearer["from"] == pytest.approx(0.6 * (whole["to"] - whole["from"]), rel=1e-6)
            assert nearer["version"] == np.count_nonzero(trace.commit_time <= nearer["to"])
            page.keyboard.press("0")
            page.click("#in")
            page.click("#all")
            assert watched.state() == whole
            box = page.locator("#timeline").bounding_box()
            page.mouse.move(box["x"] + 40, box["y"] + 8)
            assert page.text_content("#tip").startswith("worker 0 at ")
