"""What goes wrong in a simulated run beyond crashes: disks, manifests, stalls and sources."""
