"""A task's part in a checkpoint: the arrival and alignment of barriers, and its snapshot."""
