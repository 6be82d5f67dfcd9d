"""What nobody should do to asyncsim: `python -m tests.hostile`."""
