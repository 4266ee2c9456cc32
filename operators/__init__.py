"""What a task runs: user functions, the operators around them, sources and sinks.

An operator sees batches, watermarks, barriers' snapshots and the end of input; it knows nothing of
channels, threads or Ray.
"""
