"""Makes the documents of the REST API from what is known of a job."""
