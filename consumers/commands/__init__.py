"""What a user can do, one file a command; nothing heavy is imported before it runs."""
