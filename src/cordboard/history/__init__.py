"""The history of calls: an index of the ledgers that can be deleted, and all that is made of it."""
