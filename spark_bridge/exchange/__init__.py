"""Records of a stage into Spark and results out again, between subtasks and executors."""
