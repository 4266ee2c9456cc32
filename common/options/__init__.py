"""The options that Tidegate reads, each declared once."""
