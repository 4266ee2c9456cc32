"""Spark stages inside the barrier graph, through RayDP.

Only this room imports pyspark and raydp, and only when a job asks for Spark. The Spark operators of a
job run in one process, a task actor like any other, which owns the session.
"""
