"""Printed tables become tables on a telephone: which lines are rows, where columns are, and which is a head."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs/_static/outputs.js"
PROGRAM = (
    "const { blocksOf } = require(process.argv[1]);"
    "const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
    "console.log(JSON.stringify(texts.map(blocksOf)));"
)
CASES = {  # text -> blocks
    "sentences\nof any length": [{"lines": ["sentences", "of any length"]}],
    "    indented\n    lines": [{"lines": ["    indented", "    lines"]}],
    "one  line": [{"lines": ["one  line"]}],
    "name     mean staleness  sd\nfirst              1.50   2\nsecond                   31": [
        {"head": ["name", "mean staleness", "sd"], "rows": [["first", "1.50", "2"], ["second", "", "31"]]}
    ],
    "row    seconds per   outer step\n       window\n1      1.5           0.7\n2      1.6           0.9": [
        {"head": ["row", "seconds per window", "outer step"], "rows": [["1", "1.5", "0.7"], ["2", "1.6", "0.9"]]}
    ],
    "row    seconds per   outer\n       window        step\n1      1.5           0.7\n2      1.6           0.9": [
        {"head": ["row", "seconds per window", "outer step"], "rows": [["1", "1.5", "0.7"], ["2", "1.6", "0.9"]]}
    ],
    "name  estimate  5 %  95 %\nmean  0.197     .18  .21\ncv    0.4       .38  .42": [
        {
            "head": ["name", "estimate", "5 %", "95 %"],
            "rows": [["mean", "0.197", ".18", ".21"], ["cv", "0.4", ".38", ".42"]],
        }
    ],
    "commits  600  replayed\nstuck    no   no fall": [
        {"rows": [["commits", "600", "replayed"], ["stuck", "no", "no fall"]]}
    ],
    "--start  when the run\n         began\n--end    never": [
        {"rows": [["--start", "when the run began"], ["--end", "never"]]}
    ],
    "   row  seconds\n first    2.296\nrounds      1.5\n  of 2\n   all      1.5": [
        {
            "head": ["row", "seconds"],
            "rows": [["first", "2.296"], ["rounds of 2", "1.5"], ["all", "1.5"]],
        }
    ],
    "Quartiles:\n5   0.1\n20  0.2\n\nPicture in runs": [
        {"lines": ["Quartiles:"]},
        {"rows": [["5", "0.1"], ["20", "0.2"]]},
        {"lines": ["", "Picture in runs"]},
    ],
    "rounds  at most  0\nlocal   at most 11": [{"rows": [["rounds", "at most  0"], ["local", "at most 11"]]}],
}


@pytest.fixture(scope="module")
def blocks() -> dict[str, list]:
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    done = subprocess.run(
        ["node", "-e", PROGRAM, str(SCRIPT)], input=json.dumps([*CASES]), capture_output=True, text=True, check=True
    )
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("text", CASES, ids=range(len(CASES)))
def test_columns_are_where_all_lines_are_empty(blocks, text):
    assert blocks[text] == CASES[text]
