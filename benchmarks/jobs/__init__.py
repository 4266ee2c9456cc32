"""The workloads on Tidegate, written as a user would write them."""
