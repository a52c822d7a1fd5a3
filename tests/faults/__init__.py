"""Faults on a real broker: services that are killed, stopped and cut off, and who checks them."""
