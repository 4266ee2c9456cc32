"""Which process each subtask runs in, and what it is told."""
