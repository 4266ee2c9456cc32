"""Checkpoints and recovery of whole jobs on Ray, against their goals."""
