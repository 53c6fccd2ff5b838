"""Applications: complete programs that stand on the public names only. Each is imported only where it is asked for."""
