"""What every room of the service may use: errors, secrets, records, failpoints."""
