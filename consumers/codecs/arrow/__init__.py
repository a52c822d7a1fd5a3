"""Arrow: columns of records, for the wire format and for files."""
