"""One queue for many tasks, over processes of this machine or any executor. Importing it does not import JAX."""
