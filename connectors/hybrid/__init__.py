"""Several sources one after the other as one source; history from files, then a live topic."""
