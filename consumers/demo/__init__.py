"""The demo: its feeds, what it watches, and how that looks. The command is in `commands/demo`."""
