"""Plans of a job, and when it starts, restarts, moves, rescales and stops."""
