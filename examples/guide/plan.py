"""Prints how a job would run, without running it.

python plan.py, or: tidegate plan plan.py
"""

from __future__ import annotations

import json

from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment


def main() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    words = env.from_collection(["to", "be"]).name("Words").map(lambda word: (word, 1)).uid("pairs")
    words.key_by(lambda pair: pair[0]).sum(1).uid("counts").set_description("counts words").print()
    for node in json.loads(env.get_execution_plan())["nodes"]:
        inputs = [f"{each['ship_strategy']} from {each['id']}" for each in node.get("predecessors", [])]
        print(node["id"], node["type"], f"x{node['parallelism']}", f"task {node['task']}", *inputs)
    env.execute("words")


if __name__ == "__main__":
    main()
