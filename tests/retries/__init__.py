"""Honest retries and hostile uses of the keys that make a retry safe.

An honest retry sends the same request again. The store must recognise the request in each of these forms: sent later,
through another handle, under a new display name, with arguments encoded again, with an update computed again, in
another batch, or as a merge of a fork that has grown. A hostile use sends another request with the same key. The store
must refuse the hostile use and write nothing. There is one exception: the store accepts edited arguments of a dead
letter as a separate letter.

Modules
-------
kinds  the kinds of keys, each with its honest retries and hostile uses
"""
