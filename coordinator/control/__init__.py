"""What clients ask of a job, and how it answers while it runs and after its end."""
