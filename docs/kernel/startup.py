"""What is run before the code of a page: a fresh folder with the repository's scripts, and a place for its tags.

A page's code is what a reader in a clone would write: `asyncsim run scenarios/gem_digits.py` finds the script. Nothing
is written outside the folder, which is temporary.
"""

import os as _os
import shutil as _shutil
from pathlib import Path as _Path

_os.environ["ASYNCSIM_TAGS"] = str(_Path.cwd() / "tags.json")
for _folder in ("scenarios",):
    _shutil.copytree(_Path(_os.environ["ASYNCSIM_REPOSITORY"]) / _folder, _folder)
