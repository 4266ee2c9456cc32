"""The life of a checkpoint: triggered, aligned, acknowledged, stored, restored and superseded."""
