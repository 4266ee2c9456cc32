"""Sources and sinks for the world outside: files, numbers, collections, the driver."""
