"""What is run before the code of a page: a fresh folder with the repository's scripts, a place for its tags, and the
library's style of pictures.

A page's code is what a reader in a clone would write: `asyncsim run scenarios/gem_digits.py` finds the script. Nothing
is written outside the folder, which is temporary.
"""

import os as _os
import shutil as _shutil
import sys as _sys
from pathlib import Path as _Path

import matplotlib.style as _style

_os.environ["ASYNCSIM_TAGS"] = str(_Path.cwd() / "tags.json")
for _folder in ("scenarios",):
    _shutil.copytree(_Path(_os.environ["ASYNCSIM_REPOSITORY"]) / _folder, _folder)
_sys.path.append(str(_Path(_os.environ["ASYNCSIM_REPOSITORY"]) / "docs"))  # for `tools.measured`
_style.use(_Path(_os.environ["ASYNCSIM_REPOSITORY"]) / "asyncsim" / "plots" / "asyncsim.mplstyle")


def _system(command: str) -> None:
    """What `!command` does: show what the command writes; a command that fails is an error of the page.

    Not in a terminal, so that no progress bar is drawn; what goes to standard error is shown only if it fails, or if
    the line goes on after a failure. The name of the temporary folder says nothing; a clone's stands in its place.
    """
    import subprocess

    done = subprocess.run(
        get_ipython().var_expand(command, depth=1),  # noqa: F821
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    error = done.stderr if "$?" in command else ""
    print(f"{error}{done.stdout}".replace(str(_Path.cwd()), "/home/me/asyncsim"), end="")


get_ipython().system = _system  # noqa: F821
