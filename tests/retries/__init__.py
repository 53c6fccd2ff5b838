"""Honest retries and hostile uses of the keys that make a retry safe.

An honest retry sends the same request again. A retry may come later, through another handle, in another batch, or under
a new display name. A retry may also encode its arguments again, compute its update again, or merge a fork that has
grown. The store must recognise each retry. A hostile use sends another request with the same key. The store must refuse
the hostile use and write nothing. There is one exception: the store accepts edited arguments of a dead letter as a
separate letter.

Modules
-------
kinds  the kinds of keys, each with its honest retries and hostile uses
"""
