"""The commands, one file each; a large library is imported only when its command runs."""
