"""The settings of an environment, a job and an operator: read, checked, and set by the API."""
