"""Stratalog: a versioned, fully ordered store for documents that people and programs change together."""
