"""One test a promised sentence, driving the installed command as a user does."""
