"""The task of one subtask: its loop, what controls it, and what it reports."""
