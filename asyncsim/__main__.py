"""`python -m asyncsim`: the command, where an environment's folder of programs is not on the path."""

from asyncsim.cli import program

if __name__ == "__main__":
    program()
