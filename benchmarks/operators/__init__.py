"""One operator or one state backend alone, without a job around it."""
