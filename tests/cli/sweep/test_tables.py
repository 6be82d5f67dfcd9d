"""`asyncsim sweep status` and `asyncsim sweep table`: what a store holds."""

import csv
import json


def test_status(done, command):
    assert json.loads(command("sweep", "status", "store", "--json").out) == {
        "done": 6,
        "running": 0,
        "failed": 0,
        "missing": 0,
        "reasons": {},
    }
    assert command("sweep", "status", "store").out.split()[:2] == ["done", "6"]


def test_table(done, command, tmp_path):
    assert json.loads(command("sweep", "table", "store", "--json").out) == done
    assert command("sweep", "table", "store", "--csv", "all.csv").status == 0
    with open("all.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["final_loss"]) for row in rows] == done["columns"]["final_loss"]
    assert "learning rate" in command("sweep", "table", "store").out
