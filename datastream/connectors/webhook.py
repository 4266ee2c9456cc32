"""The webhook sink, beside the other connectors' import paths."""

from __future__ import annotations

from ...connectors.webhook_sink import WebhookError, WebhookSink

__all__ = ["WebhookError", "WebhookSink"]
