"""Formats of messages: JSON, Avro, and the wire format of a schema registry."""
