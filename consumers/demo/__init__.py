"""The demo: its feeds, its pictures and its view. The command is in `commands/demo`."""
