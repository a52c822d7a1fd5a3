"""What runs the splits of a backfill, one file each."""
