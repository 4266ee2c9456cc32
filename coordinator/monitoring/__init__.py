"""What is reported of a job: statistics, traces, metrics, and its archive. No decision reads it."""
