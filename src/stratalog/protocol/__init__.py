"""The rules and messages that servers and clients share: pure functions, without I/O.

Modules
-------
messages       mutations and their outcomes
mutators       mutators by name, and the built-in mutators
draft          the state that a mutator reads and changes
rebase         pending mutations on top of a canonical state
keys           keys of a document, and their collections
sync           push, pull and the cookie
weekly_groups  groups of clients that only send
live           pokes and presence
readable       values as JSON, without loss
"""

from stratalog.protocol.draft import Draft
from stratalog.protocol.messages import Mutation, Outcome
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutator, Mutators, Rejected

__all__ = ["BUILT_IN_MUTATORS", "Draft", "Mutation", "Mutator", "Mutators", "Outcome", "Rejected"]
