"""The paper's figures and four that it implies, drawn by `asyncsim figures`: one module each, listed in `catalogue`."""
