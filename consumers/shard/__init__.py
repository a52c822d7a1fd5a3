"""The core of the service, pure: a batch of records in, records to write out."""
