"""What must be true of the built pages: `python docs/tools/check.py docs/_build/html`.

No dead link or anchor within the site, nothing fetched from elsewhere, a text for every picture, a page for every
public name, no block of Python or of shell commands in the sources that was not run, no path of the
building machine, and prose in plain words.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
NOT_FETCHED = {"canonical", "index", "search", "next", "prev"}  # relations of <link>
FENCE = re.compile(r"^(`{3,})\s*(\w+)\s*$", re.MULTILINE)
MUST_RUN = ("python", "py", "sh", "bash", "console", "pycon", "shell")


class Fingerprint(NamedTuple):
    """Counts in a page's prose."""

    words: int
    semicolons: int
    what: int
    persons: int

    def rate(self, count: int) -> float:
        """A count in a thousand words."""
        return 1000 * count / max(self.words, 1)


class Page(HTMLParser):
    """The anchors and links of a page, and its pictures without a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.silent: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what matters of an element."""
        found = {key: value or "" for key, value in attrs}
        self.anchors |= {found[key] for key in ("id", "name") if key in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in FETCHED and FETCHED[tag] in found and found.get("rel") not in NOT_FETCHED:
            self.fetched.append(found[FETCHED[tag]])
        if tag == "img" and len(found.get("alt", "").split()) < 2 and "logo" not in found.get("class", ""):
            self.silent.append(found.get("src", "?"))


def dead_links(folder: Path) -> Iterator[str]:
    """Every fault of the pages below a folder, in words."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    if not pages:
        yield f"{folder}: no pages"
    for path, page in pages.items():
        where = path.relative_to(folder.resolve())
        yield from (f"{where}: the picture {source} has no text" for source in page.silent)
        yield from (f"{where}: {link} is fetched from elsewhere" for link in page.fetched if urlsplit(link).netloc)
        for link in {*page.links, *page.fetched}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{where}: {link} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {link} has no such anchor"


MISREAD_TEXT = {  # in the page without its tags
    r"~\w+\.\w": "a signature with raw `~`",
    r"\\[_*|]": "a raw backslash",
    r"\bArgs\b[\w ]*: \w": "a raw `Args:`",
    r"\w \((?:\w+, )*\w+,\) --": "fields that share a text, misread as a type",
    r"\basyncsim\._\w+": "a private name",
}
MISREAD = {
    r"<p>\*\*?\w": "a paragraph that begins with raw stars",
    r'class="(?:simple )?(?:lower|upper)(?:alpha|roman)|<ol class="(?:lower|upper)': "a letter that begins a list",
    r'<dl class="py (?:property|attribute)">(?:(?!</dl>|<dl class="py).)*>Type<': "a property with its text as type",
    r'^(?=.*<dl class="py function">)(?=.*class="sig-param")(?!.*>Parameters<)': "a function without `Parameters`",
    r">Returns<(?:(?!</dd>).)*?<dd[^>]*><p><em>[^<]*</em> --": "a result with its text as type",
}


def misread(folder: Path) -> Iterator[str]:
    """Docstrings of the reference that Sphinx took for something else."""
    for path in sorted((folder / "reference/generated").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        plain = re.sub(r"<[^>]+>", "", text)
        faults = [fault for pattern, fault in MISREAD_TEXT.items() if re.search(pattern, plain)]
        pieces = re.split(r'(?=<dl class="py (?:function|class|exception)">)', text)  # a page has several entries
        faults += [
            fault for pattern, fault in MISREAD.items() if any(re.search(pattern, one, re.DOTALL) for one in pieces)
        ]
        yield from (f"{path.name}: {fault}" for fault in faults)


ELSEWHERE = re.compile(r"[\w./-]*site-packages/[\w./-]*|\w*Warning: ")


def building_machine(folder: Path) -> Iterator[str]:
    """Pages whose outputs show a path of the machine that built them, or a warning of a library."""
    root = re.escape(str(Path(__file__).parents[2]))
    for path in sorted(folder.rglob("*.html")):
        text = re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8"))
        if seen := re.search(f"{root}|{ELSEWHERE.pattern}", text):
            yield f"{path.relative_to(folder)}: shows {seen[0]!r}, of the machine that built it"


MOST_BYTES = 100_000  # of an interactive page, which the site shows in a frame
INTERACTIVE = ("explore.html", "moving/beale.html", "moving/gravity.html", "moving/report.html")


def heavy_frames(folder: Path) -> Iterator[str]:
    """Interactive pages that are missing or large, or that no page of the site shows."""
    shown = " ".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.html"))
    for name in INTERACTIVE:
        path = folder / name
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            yield f"{name}: must be there, with at most {MOST_BYTES:,} bytes"
        if not re.search(rf'<iframe[^>]*src="[./]*{name}[^>]*loading="lazy"', shown):
            yield f"{name}: no page shows it"


def not_described(folder: Path) -> Iterator[str]:
    """Pages of which a messenger or a search engine would show no description or no picture."""
    generated = ("genindex.html", "search.html", "py-modindex.html")
    for path in sorted(folder.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        if 'class="sidebar-drawer"' in text and path.name not in generated:
            for tag in ('name="description"', 'property="og:image"'):
                if not re.search(f'<meta {tag} content="[^"]', text):
                    yield f"{path.relative_to(folder)}: has no <meta {tag}>"


SOUGHT = (
    *("install", "batch normalization", "slow network", "pytorch", "how many seeds", "cite", "slurm", "wandb"),
    *("own data", "out of memory", "resume", "windows", "compare"),
)


SEARCHED = (
    *("torchft", "vllm", "grpo", "llm", "rlhf", "horovod", "sharding", "warm-up", "warmup", "speed-up", "speedup"),
    *("fault tolerance", "ray", "deepspeed", "fsdp", "ddp", "nccl", "allreduce", "optimizer", "lr", "learning rate"),
    *(
        "scheduler",
        "quantization",
        "gradient compression",
        "fedavg",
        "federated",
        "spot",
        "kubernetes",
        "cuda",
        "docker",
    ),
    *("conda", "hyperparameters", "checkpointing", "reproducibility", "visualize", "straggler", "elastic", "adam"),
    *("trl", "verl", "areal", "slime", "openrlhf", "prime-rl", "sglang", "megatron", "gpipe", "tensorflow", "mxnet"),
)


def words_of_the_search(sources: Path) -> dict[str, str]:
    """Return the words that the search of the built pages takes for others."""
    text = (sources / "_static/synonyms.js").read_text(encoding="utf-8")
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def not_found_by_search(folder: Path, sources: Path) -> Iterator[str]:
    """Words that readers search for and that no page has, and synonyms that are needless or lead nowhere."""
    from snowballstemmer import stemmer

    text = (folder / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    known, stem = {*index["terms"], *index["titleterms"]}, stemmer("english").stemWord
    short = {"up", "of", "a"}  # which the search leaves out, or finds as a part of other words
    synonyms = words_of_the_search(sources)
    for words in SEARCHED:
        for word in re.findall(r"\w+", synonyms.get(words, words)):
            if word not in short and stem(word) not in known:
                yield f"the search finds nothing for {words!r}"
    for word, others in synonyms.items():
        if missing := [one for one in others.split() if one not in short and stem(one) not in known]:
            yield f"synonyms.js: {word!r} leads to {missing}, which no page has"


# Query -> pages of which one must be among the first three results.
LEADS = {
    "learning rate": ("tutorials/step-size", "how-to/tune"),
    "step size": ("tutorials/step-size", "how-to/tune"),
    **dict.fromkeys(("torchft", "Horovod", "sharding", "fault tolerance", "DDP", "Ray"), ("how-to/frameworks",)),
    **dict.fromkeys(("vLLM", "GRPO", "RLHF"), ("how-to/frameworks", "how-to/rollouts")),
    "LLM": ("how-to/language", "tutorials/language-model"),
    "warm-up": ("how-to/tune",),
    "speed-up": ("explanation/queues", "tutorials/cluster"),
    "DiLoCo": ("how-to/diloco",),
    "straggler": ("explanation/waiting", "how-to/choose-a-protocol"),
    "staleness": ("tutorials/staleness", "explanation/staleness"),
    "queue": ("explanation/queues", "tutorials/cluster"),
    "GEM": ("tutorials/gem", "explanation/gem"),
    "momentum": ("tutorials/momentum", "explanation/momentum"),
    "implicit momentum": ("tutorials/momentum", "explanation/momentum"),
    "batch size": ("how-to/tune", "faq"),
    "epoch": ("how-to/frameworks", "faq"),
    "seed": ("how-to/seeds",),
    "resume": ("how-to/resume",),
    "checkpoint": ("how-to/resume",),
    "GPU": ("how-to/gpu",),
    "sweep": ("how-to/sweep",),
    "calibrate": ("tutorials/log", "how-to/log"),
    "log": ("how-to/log", "tutorials/log"),
    "CSV": ("reference/trace", "how-to/log"),
    "gossip": ("how-to/gossip",),
    "decentralized": ("how-to/gossip",),
    "hierarchy": ("how-to/hierarchy",),
    "federated": ("how-to/heterogeneous",),
    "compression": ("how-to/heterogeneous", "how-to/slow-links"),
    "quantization": ("how-to/heterogeneous", "how-to/slow-links"),
    "pipeline": ("how-to/pipelines",),
    "wandb": ("how-to/tracking",),
    "slurm": ("how-to/slurm",),
    "citation": ("cite", "reference/citations"),
}


def ranked_wrongly(folder: Path, leads: dict[str, tuple[str, ...]] = LEADS) -> Iterator[str]:
    """Queries whose first three results have none of the pages that answer them; none where Node is not installed."""
    if shutil.which("node") is None:
        return
    script = Path(__file__).with_name("search.js")
    done = subprocess.run(
        ["node", str(script), str(folder)], input=json.dumps(list(leads)), capture_output=True, text=True, check=True
    )
    for query, pages in json.loads(done.stdout).items():
        if not set(pages[:3]) & set(leads[query]):
            yield f"the search for {query!r} begins with {pages[:3]}, not with {' or '.join(leads[query])}"


def not_found_by_title(folder: Path) -> Iterator[str]:
    """Words that readers search for and that stand in no heading."""
    index = (folder / "searchindex.js").read_text(encoding="utf-8")
    titles = " ".join(json.loads(index[index.index("{") : index.rindex("}") + 1])["alltitles"]).lower()
    yield from (f"the search finds no heading with {words!r}" for words in SOUGHT if words not in titles)


def missing_names(folder: Path) -> Iterator[str]:
    """Public names, as the package and its modules declare them, that have no entry in the built reference."""
    import inspect

    import asyncsim

    text = "".join(path.read_text(encoding="utf-8") for path in (folder / "reference/generated").glob("*.html"))
    described = set(re.findall(r'<dt class="sig[^>]*id="([\w.]+)"', text))
    modules = {"asyncsim": asyncsim}
    for name in asyncsim.__all__:
        value = getattr(asyncsim, name)
        if inspect.ismodule(value):
            modules[f"asyncsim.{name}"] = value
    last = {name.rpartition(".")[2] for name in described}
    for path, module in modules.items():
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.ismodule(value) or {name, getattr(value, "__name__", name)} & last:
                continue
            if f"{path}.{name}" not in described:
                yield f"{path}.{name}: no page"


def blocks_not_run(sources: Path) -> Iterator[str]:
    """Blocks of code in the sources that are not cells: an example that nobody ran."""
    for path in sorted(sources.rglob("*.md")):
        if "_build" not in path.parts:
            for _, language in FENCE.findall(path.read_text(encoding="utf-8")):
                if language in MUST_RUN:
                    yield f"{path.relative_to(sources)}: a block of {language} is not run; make it a code-cell"


def prose(text: str) -> str:
    """The sentences of a page in Markdown: no code, tables, formulas, directives or addresses.

    Example:
        >>> prose("# Run `it`\\n\\n```sh\\nls; ls\\n```\\n\\nYou [see](page.md).\\n| a; b |").split()
        ['#', 'Run', 'You', 'see', '.']
    """
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    not_prose = r"^(`{3,})[^\n]*\n.*?^\1 *$|\$\$.*?\$\$|`[^`]*`|\]\([^)]*\)"
    text = re.sub(not_prose, " ", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^ *(\||:).*$|&\w+;|<[^>]*>|\[", " ", text, flags=re.MULTILINE)


def fingerprint(text: str) -> Fingerprint:
    """How often semicolons, "what", and "we" or "you" stand in a page's prose.

    Example:
        >>> fingerprint("You see what it does; we do, too.")
        Fingerprint(words=8, semicolons=1, what=1, persons=2)
    """
    words = re.findall(r"[^\W\d_][\w'’-]*", prose(text).lower())
    persons = sum(re.split("['’]", word)[0] in ("we", "you") for word in words)
    return Fingerprint(len(words), prose(text).count(";"), words.count("what"), persons)


def not_plain(pages: dict[str, Fingerprint], words: int = 300) -> Iterator[str]:
    """Faults of the prose: of the whole site, and of each page with at least so many words, with twice the slack."""
    whole = Fingerprint(*map(sum, zip(*pages.values(), strict=True)))
    for name, found, slack in (("all pages", whole, 1), *((name, page, 2) for name, page in pages.items())):
        if found.words >= words:
            if found.rate(found.semicolons) > 3.5 * slack:
                yield f"{name}: {found.rate(found.semicolons):.1f} semicolons in a thousand words"
            if found.rate(found.what) > 2.5 * slack:
                yield f'{name}: {found.rate(found.what):.1f} times "what" in a thousand words'
            if slack == 1 and found.rate(found.persons) < 8:
                yield f'{name}: {found.rate(found.persons):.1f} times "we" or "you" in a thousand words, fewer than 8'


def written_pages(sources: Path) -> dict[str, Fingerprint]:
    """The fingerprints of README, CONTRIBUTING and the pages of the documentation."""
    root = sources.parent
    paths = [root / "README.md", root / "CONTRIBUTING.md", *sorted(sources.rglob("*.md"))]
    return {
        str(path.relative_to(root)): fingerprint(path.read_text(encoding="utf-8"))
        for path in paths
        if "_build" not in path.parts
    }


def show_fingerprints(pages: dict[str, Fingerprint]) -> None:
    """Print the rates of every page in a thousand words."""
    print(f"{'a thousand words of prose have':45}  words  semicolons  what  we, you")
    for name, page in pages.items():
        rates = (page.rate(count) for count in page[1:])
        print(f"{name:45} {page.words:6} {next(rates):11.1f} {next(rates):5.1f} {next(rates):8.1f}")


def main(folder: str) -> int:
    """Print every fault; 1 if there are any."""
    built, sources = Path(folder), Path(__file__).parents[1]
    pages = written_pages(sources)
    show_fingerprints(pages | {"all pages": Fingerprint(*map(sum, zip(*pages.values(), strict=True)))})
    faults = [
        *dead_links(built),
        *missing_names(built),
        *misread(built),
        *building_machine(built),
        *not_found_by_title(built),
        *not_found_by_search(built, sources),
        *ranked_wrongly(built),
        *heavy_frames(built),
        *not_described(built),
        *blocks_not_run(sources),
        *not_plain(pages),
    ]
    print(*faults or ["links, names, pictures and code: all well"], sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
