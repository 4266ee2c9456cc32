"""Several sources one after the other, by PyFlink's import path."""

from __future__ import annotations

from ...connectors.hybrid.source import HybridSource, HybridSourceBuilder
from ...connectors.hybrid.stages import SourceSwitchContext

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]
