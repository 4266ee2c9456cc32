"""Nexmark: queries about an auction site, as programs of this API, of PyFlink's, and in SQL."""
