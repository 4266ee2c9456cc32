"""Barriers behind a sink slowed a hundred times: how long a checkpoint takes then."""

from __future__ import annotations

import argparse

from ..goals import row


def main() -> None:
    """Not measured yet: there are no unaligned checkpoints to compare with."""
    argparse.ArgumentParser(description=__doc__).parse_known_args()
    row("alignment behind a sink slowed 100 times: unaligned <= 2 s where aligned times out", "not yet", None)


if __name__ == "__main__":
    main()
