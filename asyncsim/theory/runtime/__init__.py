"""Runtime: seconds per step of the server, queues, and the error over wall-clock time."""
