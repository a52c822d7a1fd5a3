"""Services as an earlier version of the code ran and journaled them, and their replay today."""
