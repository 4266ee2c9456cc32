"""The Ray shell: the actors of coordinators and tasks, and how jobs reach them.

The decisions are made in `protocol`, `coordinator` and `runtime`, which do not know Ray.
"""
