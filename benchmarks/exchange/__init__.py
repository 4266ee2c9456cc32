"""Ways to exchange Arrow data between a process and Spark's executors."""
