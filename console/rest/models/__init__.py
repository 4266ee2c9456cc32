"""The documents of the REST API: what each contains."""
