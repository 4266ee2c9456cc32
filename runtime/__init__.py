"""The task runtime: input gate, output and the task loop. It does not know Ray."""
