"""What server and clients must agree on, pure and without I/O.

messages    mutations and their outcomes
keys        what a key of a document may be, and its collection
draft       what a mutator reads and writes
mutators    mutators by name, and the stock ones
sync        push, pull and the cookie
live        hints, and who is here
readable    values as JSON, without loss
"""

from stratalog.protocol.draft import Draft
from stratalog.protocol.messages import Mutation, Outcome
from stratalog.protocol.mutators import STOCK, Mutator, Mutators, Rejected

__all__ = ["STOCK", "Draft", "Mutation", "Mutator", "Mutators", "Outcome", "Rejected"]
