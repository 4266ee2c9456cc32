"""Sources: splits, readers, source functions, and the event time of each split."""
