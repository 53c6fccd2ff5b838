"""Documents: a log whose entries carry mutations and their patch, and the state that follows from it."""
