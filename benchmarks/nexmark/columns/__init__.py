"""The queries that columns express, or begin with: Arrow batches in, and out where nothing needs records.

Only what a good user would write this way is here. `..queries` has every query, record by record.
"""
