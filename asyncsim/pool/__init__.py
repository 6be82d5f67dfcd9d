"""One queue for many tasks, over processes of this machine or any executor; never imports JAX at import time."""
