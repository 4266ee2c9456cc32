"""The deterministic simulation of whole jobs: many random runs, each repeatable from its seed."""
