"""Declared types: their classes, how they are inferred, written as text and read, and the conversion of values."""
