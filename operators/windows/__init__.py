"""Windows: what they are, who assigns and fires them, and the operators that keep them.

`windows` has the windows themselves, `assigners` and its siblings put records into them, `triggers` say
when they fire and `evictors` what they leave out. `contents` keeps what is in a window, `merging` tells
which windows became one, `operator` runs it all, and `fast` does the same for the common case, a batch at
a time.
"""
