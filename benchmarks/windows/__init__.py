"""Windows under load."""
