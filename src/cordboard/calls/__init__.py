"""One phone call, from the offer to the record on disk."""
