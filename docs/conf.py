"""How the documentation is built: `sphinx-build -W --keep-going docs docs/_build/html`."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import asyncsim  # noqa: E402  (after the path)
from asyncsim.animation._page import make_explorable  # noqa: E402

BUILT = HERE / "_build"
EXTRA = BUILT / "extra"  # pages that are no documents: the explorable

project = "asyncsim"
author = "the authors of asyncsim"
release = version = asyncsim.__version__
copyright = author  # the name that Sphinx asks for

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinxext.opengraph",
    "tools.mathml",
    "tools.docstrings",
    "tools.generate",
    "tools.execute",
    "tools.navigation",
    "tools.tables",
]
exclude_patterns = ["_build", "kernel", "tools", "**/.ipynb_checkpoints", "**/.jupyter_cache"]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}
default_role = "name"  # single backticks, as all docstrings have them: a link to a public name, and code else
smartquotes = False  # two dashes are a flag
suppress_warnings = ["mystnb.unknown_mime_type"]

# Docstrings
highlight_language = "none"  # Indented blocks of docstrings are commands and formulas; examples and cells have colours.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# Pages and their code
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath", "substitution"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_merge_streams = True
nb_render_markdown_format = "myst"  # of tables that a cell returns
html_math_renderer = "mathml"

# Appearance
html_theme = "furo"
html_title = f"asyncsim {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_js_files = ["copy.js", "outputs.js", "synonyms.js", "pages.js", "tables.js"]
html_search_scorer = str(HERE / "tools" / "scorer.js")
html_extra_path = [str(EXTRA)]
html_show_sphinx = False
html_copy_source = False
pygments_style = "default"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#005a93", "color-brand-content": "#005a93"},
    "dark_css_variables": {"color-brand-primary": "#6cc1ff", "color-brand-content": "#6cc1ff"},
}


# What a messenger shows of a link: the title, the first sentences and a picture, whose address must be whole on a real
# site and is therefore taken from the environment where the site is published.
ogp_site_url = os.environ.get("ASYNCSIM_SITE", "")
ogp_image = "_static/gallery/gem_digits.png"
ogp_image_alt = "Loss and staleness of twenty simulated workers that learn digits with GEM"


def digest_of_library() -> str:
    """A hash of the library's files, so that results of another library are not taken from the cache of pages."""
    kinds = (".py", ".js", ".css", ".html", ".bib")
    files = [path for path in sorted(Path(asyncsim.__file__).parent.rglob("*")) if path.suffix in kinds]
    measured = [HERE / "reference" / "story.csv", HERE / "tools" / "measured.py"]
    text = b"".join(path.read_bytes() for path in [*files, *sorted((HERE / "kernel").glob("*")), *measured])
    return hashlib.sha256(text).hexdigest()[:12]


def prepare_kernel() -> None:
    """Prepare the environment of the pages' code: the command, a folder for tags, the scripts, a width of 100.

    Pages share compiled programs. The folder for that starts empty, since programs are
    compiled for the processor at hand, and is locked, since pages run at the same time.
    """
    profile = BUILT / "ipython" / "profile_default"
    for folder in (profile, BUILT / "compiled"):
        shutil.rmtree(folder, ignore_errors=True)
    (profile / "startup").mkdir(parents=True)
    shutil.copy(HERE / "kernel" / "ipython_config.py", profile)
    shutil.copy(HERE / "kernel" / "startup.py", profile / "startup" / "00-startup.py")
    os.environ |= {
        "ASYNCSIM_REPOSITORY": str(HERE.parent),
        "COLUMNS": "100",
        "IPYTHONDIR": str(BUILT / "ipython"),
        "JAX_COMPILATION_CACHE_DIR": str(BUILT / "compiled"),
        "JAX_COMPILATION_CACHE_MAX_SIZE": "1000000000",  # a limit is what makes JAX take the lock
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        "JAX_PLATFORMS": "cpu",
        "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TF_CPP_MIN_LOG_LEVEL": "3",  # loading a program writes a page about hints that are no features of a processor
    }


def write_interactive_pages() -> None:
    """Write the explorable and the moving pages, which Sphinx copies next to the first page."""
    EXTRA.mkdir(parents=True, exist_ok=True)
    (EXTRA / "explore.html").write_text(make_explorable(), encoding="utf-8")
    tool = HERE / "tools" / "moving.py"
    scripts = [tool, HERE.parent / "scenarios" / "beale.py", HERE.parent / "scenarios" / "gravity.py"]
    version = hashlib.sha256(b"".join(path.read_bytes() for path in scripts)).hexdigest() + digest_of_library()
    done = BUILT / "moving.txt"
    if not done.exists() or done.read_text() != version:
        subprocess.run([sys.executable, str(tool), str(EXTRA / "moving")], check=True)
        done.write_text(version)


nb_execution_cache_path = str(BUILT / "executed" / digest_of_library())
prepare_kernel()
write_interactive_pages()
