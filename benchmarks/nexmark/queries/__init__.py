"""The queries, a program each, record by record and with the names that PyFlink has.

With `tidegate` replaced by `pyflink` in their imports the same files run there; `../peers` does just that.
An event is a tuple: its kind, then the columns of a person, an auction or a bid (see `..generator`).
Queries whose answer changes as events come give the new rows; the latest row of a key counts.
"""
