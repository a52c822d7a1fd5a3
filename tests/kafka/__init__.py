"""A real Kafka broker for the tests, and what only a real one can prove."""
