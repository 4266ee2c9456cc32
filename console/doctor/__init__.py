"""Looks whether jobs can run here: each check gives findings, and each finding says its remedy.

Checks change nothing but a probe file that they remove again. One file per thing that is looked at.
"""
