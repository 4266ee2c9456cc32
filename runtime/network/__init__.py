"""Direct connections between the processes of a job, and how each proves who it is."""
