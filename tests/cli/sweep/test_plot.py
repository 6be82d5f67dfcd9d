"""`asyncsim sweep plot`: the picture, the best settings, and what is left out of both."""

import json


def test_plot(done, command, tmp_path):
    found = json.loads(command("sweep", "plot", "store", "--x", "learning_rate", "--json").out)
    assert (tmp_path / found["picture"]).read_bytes()[1:4] == b"PNG"
    assert found["best"]["columns"]["learning_rate"] == [0.05]
    assert "The lowest final loss" in command("sweep", "plot", "store", "--x", "learning_rate", "--out", "a.png").out
