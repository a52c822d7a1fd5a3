"""Random configurations of whole services: killed, cut off from power, and compared with a twin."""
