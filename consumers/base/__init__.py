"""What every package of the service may use: errors, secrets, records, failpoints."""
