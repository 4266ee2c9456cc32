"""The command line.

Commands read their arguments, call the rooms below, and print; nothing is decided here. One file per group
of commands; `main` puts them together.
"""
