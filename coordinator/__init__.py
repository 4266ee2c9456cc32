"""Runs one job: deploys its subtasks, drives its checkpoints, restarts it after failures.

`JobCoordinator` and what it uses know nothing of Ray; the Ray actor and the deployment to Ray are
thin shells named after it.
"""
