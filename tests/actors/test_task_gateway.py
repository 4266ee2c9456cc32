"""What holds for jobs on Ray while Ray itself does not answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# In a process that is connected to no Ray, as after the loss of its head.
PROGRAM = """
import logging, queue
from tests.coordinator.fakes import job_spec
from tidegate.actors.task_gateway import RayTaskGateway

logging.basicConfig(format="%(levelname)s %(message)s")
posted = queue.Queue()
gateway = RayTaskGateway(job_spec(), None, {}, posted.put, print, print)
gateway.tick()
posted.get(timeout=60)()
gateway.close()
print("went on")
"""


def test_while_ray_cannot_say_what_nodes_there_are_the_job_goes_on_and_the_log_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert "WARNING Ray does not say what nodes there are: RaySystemError: " in done.stderr
