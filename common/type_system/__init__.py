"""Declared types: classes, inference, their form as text, and the conversion of values to them."""
