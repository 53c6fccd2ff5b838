"""Honest retries in random form, and hostile uses of the same keys.

Every honest retry must be recognised: later, by another handle, under a new display name, with arguments encoded
again, an update computed again, in another batch, or as a merge after its fork grew. Every hostile use must be a
conflict, with nothing written.

Modules
-------
kinds  the kinds of keys, and how each is used again
"""
