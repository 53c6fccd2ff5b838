"""Unit tests by subject, contract suites by backend, simulations, and checks of the project's own style."""
