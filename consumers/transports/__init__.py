"""Where records live, one device a file; `open_log` picks it by the URL.

sqlite:PATH             the embedded log, a file: no broker needed
kafka://HOST:PORT[,…]   Apache Kafka
memory:NAME             a log in this process, for tests and notebooks
"""
