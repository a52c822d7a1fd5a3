"""The wire formats: one file each, with its entry `FORMAT`."""
