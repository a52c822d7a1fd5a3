"""What is peculiar to one transport."""
