"""Programs that people and `make` run."""
