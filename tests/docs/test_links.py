"""Relative links of the repository's pages lead to files that a clone has, or that the build of the pages makes."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = ("docs/reference/generated/", "docs/moving/", "docs/explore.html")  # by docs/conf.py, which pages may link to
LINK = re.compile(r"\]\(<?([^()<>\s]+)|(?:src|href)=\"([^\"]+)\"")
FENCED = re.compile(r"^ *(`{3,}).*?^ *\1", re.MULTILINE | re.DOTALL)


def tracked() -> set[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no clone")
    return set(done.stdout.splitlines())


def test_relative_links_lead_to_tracked_files():
    files = tracked()
    folders = {str(folder) for name in files for folder in Path(name).parents}
    dead, seen = [], 0
    for page in sorted(name for name in files if name.endswith(".md")):
        text = FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
        for link in (one or other for one, other in LINK.findall(text)):
            if re.match(r"[a-z]+:|#|\{", link):
                continue
            seen += 1
            target = os.path.normpath(Path(page).parent / link.partition("#")[0])
            built = page.startswith("docs/") and target.startswith(BUILT)
            if target not in files | folders and not built:
                dead.append((page, link))
    assert seen > 100
    assert not dead


def test_the_readme_leads_to_no_index_of_built_pages():
    """What is read on the host of the repository has not been built."""
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for link, _ in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            target = ROOT / link.partition("#")[0]
            if target.suffix == ".md" and target.exists():
                links = [one or other for one, other in LINK.findall(target.read_text(encoding="utf-8"))]
                relative = [one for one in links if not re.match(r"[a-z]+:|#", one)]
                assert sum("generated/" in one for one in relative) <= 2, (page, link)
