"""What messages between two processes cost: direct connections, bare sockets, pyzmq."""
