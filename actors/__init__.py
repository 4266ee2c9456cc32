"""The task runtime: input gate, output, the task loop, and what carries messages.

Everything here runs without Ray, except the transport and the actor that are named after it.
"""
