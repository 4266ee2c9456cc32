"""Makes the schemas beside this file from KubeRay's custom resource definitions.

    python reduce.py ray.io_rayjobs.yaml ray.io_rayclusters.yaml

Descriptions go, which are most of the text; what is not in the schema becomes an error, as it does for
`kubectl apply --validate=strict`.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


def reduced(schema: Any) -> Any:
    """A schema without descriptions, closed to fields it does not name."""
    if isinstance(schema, list):
        return [reduced(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    short = {
        key: reduced(value)
        for key, value in schema.items()
        if key != "description" or isinstance(value, dict)
    }
    is_open = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and "properties" in schema and not is_open:
        short["additionalProperties"] = False
    return short


def main(paths: list[str]) -> None:
    for path in paths:
        definition = yaml.safe_load(Path(path).read_text("utf-8"))
        kind = definition["spec"]["names"]["kind"]
        (version,) = (one for one in definition["spec"]["versions"] if one["name"] == "v1")
        schema = reduced(version["schema"]["openAPIV3Schema"])
        # Kubernetes checks these by itself.
        schema["properties"]["metadata"] = {"type": "object"}
        text = json.dumps(schema, sort_keys=True)
        (HERE / f"{kind}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
