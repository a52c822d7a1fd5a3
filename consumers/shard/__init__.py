"""The heart of the service, pure: a batch of records in, what to write out."""
