"""Options of the connections between the processes of a job."""

from __future__ import annotations

from .config_options import ConfigOption, ConfigOptions
from .time import Duration

__all__ = ["NetworkOptions"]


class NetworkOptions:
    """How the processes of a job reach each other."""

    GAP_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("tidegate.network.gap-timeout")
        .duration_type()
        .default_value(Duration.of_seconds(5))
    )
    """How long a message between two processes may be missing, while later ones are there, before it counts
    as lost and the job restarts from its latest checkpoint."""
    RECONNECT_TIMEOUT: ConfigOption[Duration] = (
        ConfigOptions.key("tidegate.network.reconnect-timeout")
        .duration_type()
        .default_value(Duration.of_seconds(20))
    )
    """How long the direct connection between two task processes may be lost, before the job restarts from its
    latest checkpoint. Until then it is opened again and goes on where it was, and nothing is lost. Longer by
    default than `heartbeat.timeout`, which finds a process or a node that is silent altogether."""
    ADDRESS: ConfigOption[str] = ConfigOptions.key("tidegate.network.address").string_type().default_value("")
    """Networks such as `10.1.0.0/16`, or names of network interfaces, separated by commas. A task process
    listens for those of other nodes on an address that its node has in the first of them; by default on the
    address by which Ray knows the node."""
    BIND_PORT: ConfigOption[str] = (
        ConfigOptions.key("taskmanager.data.bind-port").string_type().default_value("0")
    )
    """Ports on which task processes listen for those of other nodes, such as `50100-50200`; each process
    needs one. `0`: any free port."""
