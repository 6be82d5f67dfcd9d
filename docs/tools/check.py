"""What must be true of the built pages: `python docs/tools/check.py docs/_build/html`.

No dead link or anchor within the site, nothing fetched from elsewhere, a text for every picture, a page for every
public name, and no block of Python or of shell commands in the sources that was not run.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
NOT_FETCHED = {"canonical", "index", "search", "next", "prev"}  # relations of <link>
FENCE = re.compile(r"^(`{3,})\s*(\w+)\s*$", re.MULTILINE)
MUST_RUN = ("python", "py", "sh", "bash", "console", "pycon", "shell")


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
            if not inspect.ismodule(getattr(module, name)) and not {f"{path}.{name}"} & described and name not in last:
                yield f"{path}.{name}: no page"


def blocks_not_run(sources: Path) -> Iterator[str]:
    """Blocks of code in the sources that are not cells: an example that nobody ran."""
    for path in sorted(sources.rglob("*.md")):
        if "_build" not in path.parts:
            for _, language in FENCE.findall(path.read_text(encoding="utf-8")):
                if language in MUST_RUN:
                    yield f"{path.relative_to(sources)}: a block of {language} is not run; make it a code-cell"


def main(folder: str) -> int:
    """Print every fault; 1 if there are any."""
    built = Path(folder)
    faults = [*dead_links(built), *missing_names(built), *blocks_not_run(Path(__file__).parents[1])]
    print(*faults or ["links, names, pictures and code: all well"], sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
