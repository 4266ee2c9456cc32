"""The Kafka source beside a bare loop around the same consumer."""
