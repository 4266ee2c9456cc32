"""The epochs of a Spark stage: who is in which, and when each is emitted."""
