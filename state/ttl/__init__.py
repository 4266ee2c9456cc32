"""State with a time to live: its expiry, filtering and clean-up."""
