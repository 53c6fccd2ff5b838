"""Unit tests by noun, contract suites by backend, simulations, and the project's own habits."""
