"""The commands of `tidegate`, one module for each group."""
