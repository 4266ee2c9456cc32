"""Starting a job from a checkpoint: found, checked against the job graph, and fenced off from its old job."""
