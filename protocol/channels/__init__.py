"""Messages between processes: their layout, order, credit, and the state of a connection."""
