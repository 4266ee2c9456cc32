"""The workloads on other engines. Each file runs by its path, in its engine's environment."""
