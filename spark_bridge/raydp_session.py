"""A Spark session whose executors are Ray actors, through the Java part of RayDP.

`raydp.init_spark` starts a Python actor and a Java process only to start the application master. Here the
driver's Java starts it. A session with one executor has three Java processes: the driver (a child of this
process), the application master and the executor. They end with the driver's, because Ray ends what a
connection owns.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import ray

from .ray_actors import await_no_session, node_address
from .settings import SparkSettings, spark_configs

_NAMESPACE_TIMEOUT_S = 30.0
_MASTER_EXISTS = "RAY_APP_MASTER exists"
_LOG4J_FACTORY = "log4j2"

logger = logging.getLogger(__name__)


def raydp_configs(settings: SparkSettings) -> dict[str, str]:
    """All Spark settings of a session on Ray. RayDP's Java part requires those that are added here."""
    node_ip = node_address()
    configs = spark_configs(settings)
    user_class_path = configs.get("spark.driver.extraClassPath")
    return {
        "spark.driver.host": node_ip,
        "spark.driver.bindAddress": node_ip,
        "spark.ray.log4j.config.file.name": "log4j2.xml",
        **configs,
        "spark.executor.instances": str(settings.num_executors),
        "spark.executor.cores": str(settings.executor_cores),
        "spark.executor.memory": settings.executor_memory,
        "spark.javaagent": str(next((_package("raydp") / "jars").glob("raydp-agent*.jar"))),
        "spark.ray.log4j.factory.class": _LOG4J_FACTORY,
        "spark.driver.extraClassPath": os.pathsep.join(filter(None, [user_class_path, class_path()])),
    }


def class_path() -> str:
    """RayDP's, Spark's and Ray's jars. RayDP replaces some classes of Spark, so its jars are the first."""
    spark_home = os.environ.get("SPARK_HOME") or str(_package("pyspark"))
    folders = [_package("raydp") / "jars", Path(spark_home) / "jars", _package("ray") / "jars"]
    return os.pathsep.join(str(jar) for folder in folders for jar in sorted(folder.glob("*.jar")))


def start_app_master(gateway: Any, configs: dict[str, str]) -> str:
    """Start the application master from the driver's Java; the URL that a Spark context connects to.

    Args:
        gateway: The connection to the driver's Java.
        configs: All Spark settings.

    Raises:
        SparkSessionError: Another session runs in this Ray namespace, and does not end.
    """
    raydp = gateway.jvm.org.apache.spark.deploy.raydp
    raydp.RayAppMaster.setProperties(json.dumps(_ray_properties()))
    bridge = raydp.AppMasterJavaBridge()
    # It has the only handle of the actor, which ends when no handle is left.
    gateway.app_master = bridge
    deadline_s = time.monotonic() + _NAMESPACE_TIMEOUT_S
    while True:
        # The session of a killed process may take a few seconds to die.
        await_no_session(deadline_s)
        try:
            bridge.startUpAppMaster(class_path(), configs)
            return str(bridge.getMasterUrl())
        except Exception as error:
            if _MASTER_EXISTS not in str(error):
                raise
            logger.info("Spark session: another one has just started in this Ray namespace")


def _ray_properties() -> dict[str, str]:
    """How the driver's Java connects to the Ray of this process."""
    node = _node()
    return {
        "ray.run-mode": "CLUSTER",
        "ray.node-ip": node_address(),
        "ray.address": node.address,
        "ray.logging.dir": node.get_logs_dir_path(),
        "ray.session-dir": node.get_session_dir_path(),
        "ray.raylet.node-manager-port": str(node.node_manager_port),
        "ray.raylet.socket-name": node.raylet_socket_name,
        "ray.raylet.config.num_workers_per_process_java": "1",
        "ray.object-store.socket-name": node.plasma_store_socket_name,
        "ray.logging.level": "INFO",
        "ray.job.namespace": ray.get_runtime_context().namespace,
    }


def _node() -> Any:
    return ray._private.worker._global_node


def _package(name: str) -> Path:
    """The directory of a package. RayDP's is not imported: that takes 1.7 s, most of it for Ray Data."""
    found = importlib.util.find_spec(name)
    assert found is not None, f"Tidegate requires {name}"
    assert found.origin is not None, f"{name} has a file"
    return Path(found.origin).parent
