"""PostgreSQL: a source of queries, and sinks that write exactly once, at least once, or one row per key."""

from ...common.errors import ConfigurationError

try:
    import psycopg as _psycopg  # noqa: F401
except ImportError as missing:
    raise ConfigurationError(
        f"the PostgreSQL connectors need psycopg 3, which cannot be imported ({missing}); install it with "
        f"pip install 'tidegate[postgres]', on the workers too"
    ) from missing
