"""Checkpoints of one job: driven, stored, claimed by one coordinator, and deleted."""
