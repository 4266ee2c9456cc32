"""The pure core: what Tidegate decides, with no I/O, clock, threads or Ray.

Every machine here takes an event (past tense) and, where time matters, the current time; it returns
commands (imperative) for a shell to perform. Only the standard library and `tidegate.common` may be
imported. What is performed, and where, lives in `runtime` and `coordinator`.
"""
