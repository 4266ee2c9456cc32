"""`python -m tidegate.console`: the command `tidegate` where its script is not in the PATH."""

from .main import main

main()
