"""Files of records: where they are, how they are compressed, and in which format they are."""
