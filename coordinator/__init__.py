"""Runs one job: deploys its subtasks, drives its checkpoints, restarts it after failures.

It does not know Ray: the actor around `JobCoordinator` and the deployment to Ray are in `actors`.
"""
