"""Claims: the table that says which of them hold, and how numbers are shown in it."""

from asyncsim.study.claims import Claim, claims_table, numbers


def test_the_table_has_one_row_per_claim_and_says_what_does_not_hold():
    claims = {
        "figure1": [Claim("a", "|b|", "c", True), Claim("d", "e", "f", False)],
        "energy": [Claim("g", "h", "i", None)],
    }
    rows = claims_table(claims).splitlines()[2:]
    assert [row.split(" | ")[-1] for row in rows] == ["holds |", "**does not hold** |", "cannot be judged here |"]
    assert rows[0] == r"| figure1 | a | \|b\| | c | holds |"
    assert [row.split(" | ")[0] for row in rows] == ["| figure1", "| figure1", "| energy"]


def test_numbers_have_three_digits():
    assert numbers([0.07, 0.995, 0.9996, -0.5, 12.345]) == ".07 .995 1 -.5 12.3"
