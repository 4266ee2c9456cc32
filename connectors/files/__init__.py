"""Files: a source and an exactly-once sink over local directories and object stores, in several formats."""
