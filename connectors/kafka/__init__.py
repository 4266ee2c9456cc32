"""Kafka on `confluent-kafka`: a source of splits, a consumer function, and sinks.

Everything that touches the broker imports `confluent_kafka` when it first does, through `client.py`, so that
programs without Kafka need not have it.
"""
