"""Tests of a store in PostgreSQL, against Debian's server."""
